package spec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	const (
		ignored = "will be ignored"
		bom     = "byte order mark"
		crlf    = "CRLF"
		utf8    = "not UTF-8, so cloud-init may drop"
		mime    = "not UTF-8, at which cloud-init stops"
		marker  = "begins with the line \"---\" before its header"
	)
	tests := []struct {
		name, data string
		want       []string
	}{
		{"none", "", nil},
		{"cloud-config", "#cloud-config\na: b\n", nil},
		{"any case, after blanks", " \r\n\t#Cloud-Config\n", nil},
		{"script", "#!/bin/sh\n", nil},
		{"jinja", "## template: jinja\n#cloud-config\n", nil},
		{"MIME", "Content-Type: text/x\nMIME-Version: 1.0\n\n", nil},
		{"gzip", "\x1f\x8b\x08\xff\xff", nil},
		{"boothook, include, part-handler, archive", "#cloud-boothook\n", nil},
		{"cloud-config with CRLF", "#cloud-config\r\na: b\r\n", nil},
		{"no header", "packages: [squid]\n", []string{ignored}},
		{"header too late", "# squid\n#cloud-config\n", []string{ignored}},
		{"MIME header too late", strings.Repeat("x", 4096) + "mime-version: 1.0", []string{ignored}},
		{"base64 given as text", "I2Nsb3VkLWNvbmZpZwo=", []string{ignored}},
		{"byte order mark", "\ufeff#cloud-config\n", []string{bom}},
		{"script with CRLF", "#!/bin/sh\r\necho\r\n", []string{crlf}},
		{"script with one CRLF", "#!/bin/sh\necho\r\n", []string{crlf}},
		{"template of a script with CRLF", "## template: jinja\r\n#!/bin/sh\r\n", []string{crlf}},
		{"boothook with CRLF", "#cloud-boothook\r\n#!/bin/sh\r\n", []string{crlf}},
		{"document marker", "---\n#cloud-config\n", []string{marker}},
		{"document marker with blanks", "\n--- \r\n#cloud-config\r\n", []string{marker}},
		{"document marker after the header", "#cloud-config\n---\n", nil},
		{"document marker and no header", "---\npackages: [squid]\n", []string{ignored}},
		{"latin-1 in MIME", "Content-Type: text/plain\nMIME-Version: 1.0\n\n\xfc", []string{mime}},
		{"UTF-8 in MIME", "Content-Type: text/plain\nMIME-Version: 1.0\n\n\u00fc", nil},
		{"latin-1", "#cloud-config\n# gr\xfc\xdfe\n", []string{utf8}},
		{"everything", "x\xfc", []string{ignored, utf8}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, s := range map[string]spec.Spec{"user-data": {UserData: spec.Secret(tt.data)}, "vendor-data": {VendorData: spec.Secret(tt.data)}} {
				got := s.Warnings()
				if len(got) != len(tt.want) {
					t.Fatalf("warnings %q; want %d: %q", got, len(tt.want), tt.want)
				}
				for i, w := range got {
					if !strings.HasPrefix(w, name+" ") || !strings.Contains(w, tt.want[i]) {
						t.Errorf("warning %q; want one on the %s and %q", w, name, tt.want[i])
					}
				}
			}
		})
	}
}

// TestWarningsOnPortAndProbe: what is legal and probably not meant.
func TestWarningsOnPortAndProbe(t *testing.T) {
	t.Parallel()
	const own, self, ssh = "answers by itself", "its own host", "SSH server"
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"port = 22", ssh},
		{"[probe]\ntype = 'http'\nurl = 'http://x/'\nexpect_status = 407", own},
		{"[probe]\ntype = 'connect'\nurl = 'https://x/'\nexpect_status = 502", own},
		{"[probe]\ntype = 'http'\nurl = 'http://x/'\nexpect_status = 403", ""},
		{"[probe]\ntype = 'http'\nurl = 'http://LocalHost:80/'", self},
		{"[probe]\ntype = 'connect'\ntarget = '[::1]:80'", self},
		{"[probe]\ntype = 'connect'\ntarget = '127.1.2.3:80'", self},
		{"[probe]\ntype = 'connect'\ntarget = 'localhost.example:80'", ""},
	} {
		s, err := decode(minimal+tt.text, catalog())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Warnings(), "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q; want one warning with %q", tt.text, got, tt.want)
		}
	}
}

func TestWarningOfAFilterThatStopsIPv6(t *testing.T) {
	t.Parallel()
	nic := func(address string, clean bool) spec.NIC {
		return spec.NIC{Network: spec.Network{Bridge: "br0"}, CleanTraffic: clean, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}
	}
	s := spec.Spec{Port: 3128, Networks: []spec.NIC{nic("192.0.2.1/24", true), nic("2001:db8::1/64", false), nic("2001:db8::2/64", true)}}
	if w := s.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "network[2] has an IPv6 address") {
		t.Errorf("warnings: %q", w)
	}
}
