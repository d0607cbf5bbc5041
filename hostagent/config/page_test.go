package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// page is docs/CONFIG.md: its keys as TABLE.key, the defaults it names, and its
// examples as one document.
type page struct {
	keys              []string
	defaults, example string
}

var (
	headline = regexp.MustCompile(`^## \[(.+)\]$`)
	item     = regexp.MustCompile("^- `([a-z0-9_]+)`: ")
	standard = regexp.MustCompile("default `([^`]+)`")
)

func readPage(t *testing.T) page {
	t.Helper()
	data, err := os.ReadFile("../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	var p page
	table, code := "", false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch found := headline.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "```"):
			code = line == "```toml"
		case code:
			p.example += line + "\n"
		case found != nil:
			table = found[1]
			if !strings.HasSuffix(table, ".KEY") {
				p.defaults += "[" + table + "]\n"
			}
		}
		if key := item.FindStringSubmatch(line); key != nil {
			p.keys = append(p.keys, table+"."+key[1])
			if def := standard.FindStringSubmatch(line); def != nil && !strings.HasSuffix(table, ".KEY") {
				p.defaults += key[1] + " = " + def[1] + "\n"
			}
		}
	}
	slices.Sort(p.keys)
	return p
}

// TestPageHasEveryKey: the page and the decoder know the same keys, and each is
// in an example.
func TestPageHasEveryKey(t *testing.T) {
	p := readPage(t)
	d, err := doc.ParseTOML("CONFIG.md", []byte(p.example))
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.decode(d.Root())
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	named := regexp.MustCompile(`^(images|machine_types|credentials)\.[^.]+\.`)
	var decoded []string
	for _, path := range d.Asked() {
		decoded = append(decoded, named.ReplaceAllString(path, "$1.KEY."))
	}
	slices.Sort(decoded)
	if diff := cmp.Diff(slices.Compact(decoded), p.keys); diff != "" {
		t.Errorf("keys that are decoded (-) and documented (+):\n%s", diff)
	}
	for _, key := range p.keys {
		if last := key[strings.LastIndex(key, ".")+1:]; !strings.Contains(p.example, last+" = ") &&
			key != "defaults.network" && key != "defaults.direct" { // one of three is allowed
			t.Errorf("%s is in no example", key)
		}
	}
}

// TestPageNamesTheDefaults: what the page says a key is without being given.
func TestPageNamesTheDefaults(t *testing.T) {
	p := readPage(t)
	if n := strings.Count(p.defaults, " = "); n < 20 {
		t.Fatalf("the page names %d defaults:\n%s", n, p.defaults)
	}
	c, err := Decode("", []byte(p.defaults))
	if err != nil {
		t.Fatalf("%v in\n%s", err, p.defaults)
	}
	if diff := cmp.Diff(Default(), c, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("defaults (-) and what the page says of them (+):\n%s", diff)
	}
}
