package spec_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// hostile are names that must never become identifiers, with a word of the
// consequence that the message has to name.
var hostile = map[string]string{
	"":                                 "without one",
	".":                                "directory",
	"..":                               "directory",
	"a/b":                              "leave the image tree",
	"../../etc/cron.d/x":               "leave the image tree",
	"/etc/passwd":                      "leave the image tree",
	"-rf":                              "option",
	"--help":                           "option",
	".hidden":                          "hidden",
	"..2026":                           "hidden",
	"a\x00b":                           "quoted",
	"a\nb":                             "line",
	"a\x1b[31mb":                       "quoted",
	" a":                               "quoted",
	"a ":                               "quoted",
	"my proxy":                         "quoted",
	"a\tb":                             "quoted",
	"a;b":                              "quoted",
	"a$b":                              "quoted",
	"a,b":                              "quoted",
	"a:b":                              "quoted",
	"a\\b":                             "quoted",
	"<a>":                              "quoted",
	"a'b":                              "quoted",
	"größe":                            "ASCII",
	"a\u2044b":                         "ASCII",
	"a\u202eb":                         "ASCII",
	"а1":                               "ASCII", // Cyrillic
	"a\xff":                            "ASCII",
	"a.":                               "final dot",
	"a..":                              "final dot",
	"p.i-0123456789abcdef":             "incarnation",
	strings.Repeat("a", 64):            "too long",
	strings.Repeat("a", 300):           "too long",
	strings.Repeat("\x1b", 4000) + "/": "too long",
}

func TestI13_HostileNames(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		spec.KindProxy, spec.KindHost, spec.KindHostID, spec.KindImage, spec.KindMachineType, spec.KindNetwork, spec.KindBridge, spec.KindInterface, spec.KindCredentials, spec.KindTemplate,
	} {
		for name, consequence := range hostile {
			err := spec.CheckName(kind, name)
			if err == nil {
				t.Errorf("%s name %q was accepted", kind, name)
				continue
			}
			if kind != spec.KindBridge && kind != spec.KindInterface && !strings.Contains(err.Error(), consequence) {
				t.Errorf("%s name %q: %v; want a word on %q", kind, name, err, consequence)
			}
			if text := err.Error(); len(text) > 700 || strings.ContainsAny(text, "\x00\n\x1b\u202e") {
				t.Errorf("%s name %q: unbounded or unescaped: %q", kind, name, text)
			}
		}
	}
}

func TestI13_NamesInDocuments(t *testing.T) {
	t.Parallel()
	for name := range hostile {
		if s, err := spec.DecodeTOML(name, "f.toml", []byte(minimal), catalog(), nil); err == nil {
			t.Errorf("proxy %q was accepted: %v", name, s.Name)
		}
		quoted := tomlString(name)
		cat := catalog()
		cat.Images[name] = debian13
		cat.Credentials[name] = "/etc/c"
		cat.MachineTypes[name] = spec.MachineType{CPUs: 1, Memory: spec.GiB}
		for _, text := range []string{
			"image = " + quoted + "\nmachine_type = 'small'",
			"image = 'debian-13'\nmachine_type = " + quoted,
			minimal + "[[network]]\nnetwork = " + quoted,
			minimal + "[[network]]\nbridge = " + quoted,
			minimal + "[[network]]\ndirect = " + quoted,
			minimal + "[probe]\ntype = 'http'\nurl = 'http://x/'\ncredentials = " + quoted,
			minimal + "[labels]\n" + quoted + " = 'x'",
		} {
			if strings.Contains(text, "[labels]") && labelLike.MatchString(name) {
				continue
			}
			if s, err := decode(text, cat); err == nil {
				t.Errorf("%q was accepted: %v", text, s)
			} else if strings.ContainsAny(err.Error(), "\x00\x1b\u202e") || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("%q: unescaped or more than one problem: %q", text, err)
			}
		}
	}
}

var labelLike = regexp.MustCompile(`^[a-z]{1,63}$`)

// tomlString writes any string as a TOML basic string. Bytes that are not
// UTF-8 become a character that is not ASCII either.
func tomlString(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\U%08x`, r)
	}
	return `"` + b.String() + `"`
}

func TestGoodNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "1", "scraper-eu-1", "edge_1", "EDGE1", "edge.example.test", "1edge", "edge-", "a.i-0123", "i-0123456789abcdef", strings.Repeat("a", 63),
	} {
		if err := spec.CheckName(spec.KindProxy, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, kind := range []string{spec.KindBridge, spec.KindInterface} {
		if err := spec.CheckName(kind, strings.Repeat("b", 15)); err != nil {
			t.Error(err)
		}
		if err := spec.CheckName(kind, strings.Repeat("b", 16)); err == nil {
			t.Errorf("%s of 16 bytes was accepted", kind)
		}
	}
}
