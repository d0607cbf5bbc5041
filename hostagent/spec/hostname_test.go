package spec_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

func TestHostname(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"scraper-eu-1":                       "scraper-eu-1",
		"edge.example.test":                  "edge.example.test",
		"1edge":                              "1edge",
		"proxy-a1b2c3":                       "proxy-a1b2c3",
		strings.Repeat("a", 63):              strings.Repeat("a", 63),
		"edge_1":                             "edge-1-xa2145e",
		"EDGE1":                              "edge1-xc472b0",
		"edge-":                              "edge-x970e01",
		"a..b":                               "a.b-xf62b42",
		"4913":                               "4913-x0a0abd",
		"10.0.0.1":                           "10.0.0.1-xf50473",
		"edge-1-xa2145e":                     "edge-1-xa2145e-x82a326",
		"x" + strings.Repeat("_", 60) + "yz": "x-x61564d",
		"":                                   "proxy-xe3b0c4",
	} {
		if got := spec.Hostname(name); got != want {
			t.Errorf("Hostname(%q) = %q; want %q", name, got, want)
		}
	}
}

func TestHostnameIsInjective(t *testing.T) {
	t.Parallel()
	names := []string{}
	parts := []string{"", "a", "A", "b", "-", "_", ".", "1", "a_", "-xa2145e"}
	for _, p := range parts {
		for _, q := range parts {
			for _, r := range parts {
				if n := "e" + p + q + r; spec.CheckName(spec.KindProxy, n) == nil {
					names = append(names, n, spec.Hostname(n), spec.Hostname(spec.Hostname(n)))
				}
			}
		}
	}
	for i := range 3000 {
		names = append(names, fmt.Sprintf("Edge_%d", i), fmt.Sprintf("edge-%d", i), strings.Repeat("x", 55)+fmt.Sprintf("_%d", i))
	}
	from := map[string]string{}
	for _, n := range names {
		h := strings.ToLower(spec.Hostname(n))
		if other, taken := from[h]; taken && other != n {
			t.Errorf("%q and %q both become %q", other, n, h)
		}
		from[h] = n
	}
}

var rfc1123 = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func FuzzHostname(f *testing.F) {
	for _, n := range []string{"", "a", "edge_1", "..", "10.0.0.1", "größe", strings.Repeat("a.", 40), strings.Repeat("-", 70), "\x00"} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		h := spec.Hostname(name)
		if len(h) > spec.MaxName || !rfc1123.MatchString(h) {
			t.Fatalf("Hostname(%q) = %q is no host name", name, h)
		}
		if err := (seed.Input{InstanceID: "i-0", Hostname: h}).Validate(); err != nil {
			t.Fatalf("Hostname(%q): %v", name, err)
		}
	})
}
