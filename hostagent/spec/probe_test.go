package spec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestProbes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]spec.Probe{
		"type = 'connect'\ntarget = 'c.example:443'":                                  {Type: "connect", Target: "c.example:443"},
		"type = 'socks5'\ntarget = '[2001:db8::1]:65535'\ncredentials = 'probe'":      {Type: "socks5", Target: "[2001:db8::1]:65535", Credentials: "/etc/probe.credentials"},
		"type = 'connect'\nurl = 'https://c.example/x'":                               {Type: "connect", URL: "https://c.example/x", ExpectStatus: 204},
		"type = 'socks5'\nurl = 'http://c.example/x'\nexpect_status = 200":            {Type: "socks5", URL: "http://c.example/x", ExpectStatus: 200},
		"type = 'http'\nurl = 'http://c.example/x'\ncredentials = 'probe'":            {Type: "http", URL: "http://c.example/x", ExpectStatus: 204, Credentials: "/etc/probe.credentials"},
		"type = 'connect'\ntarget = '192.0.2.1:80'":                                   {Type: "connect", Target: "192.0.2.1:80"},
		"type = 'connect'\ntarget = 'a_b-c.x1.example.:1'\n# a name with a final dot": {Type: "connect", Target: "a_b-c.x1.example.:1"},
	} {
		s, err := decode(minimal+"[probe]\n"+text, catalog())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, s.Probe); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestProbeProblems: each is one problem.
func TestProbeProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"type = 'connect'", "probe: has neither url nor target; a probe of type \"connect\" needs one"},
		{"type = 'socks5'\nexpect_status = 200\nurl = 'http://x/'\ntarget = 'x:1'", "probe.target: is given beside url; give one of them"},
		{"type = 'socks5'\nexpect_status = 200\ntarget = 'x:1'", "probe.expect_status: means nothing without url"},
		{"type = 'http'\nurl = 'https://x/'", "probe.url: is an https URL, for which a proxy makes a tunnel; give type = \"connect\""},
		{"type = 'http'\nurl = 'HTTPS://x/'", "probe.url: is an https URL"},
		{"type = 'http'\nurl = 'http://x/'\ntarget = 'x:1'", "probe.target: means nothing to a probe of type \"http\"; give type = \"connect\" or \"socks5\""},
		{"target = 'x:1'", "probe.target: means nothing to a probe of type \"tcp\""},
		{"type = 'tcp'\ncredentials = 'probe'", "probe.credentials: means nothing to a probe of type \"tcp\"; give type = \"http\", \"connect\" or \"socks5\""},
		{"type = 'http'\nurl = 'http://x/'\ncredentials = 'prob'", "probe.credentials: there are no credentials \"prob\"; did you mean \"probe\"? known: probe"},
		{"type = 'http'\nurl = 'http://x/'\ncredentials = '/etc/c'", "probe.credentials: credentials name \"/etc/c\""},
		{"type = 'connect'\nurl = 'ftp://x/'", "probe.url: has the scheme \"ftp\"; want http or https"},
		{"type = 'connect'\nurl = 'https://größe.example/'", "probe.url: has a host that a proxy can not be asked to connect to"},
		{"type = 'socks5'\nurl = 'http://[fe80::1%25eth0]/'", "probe.url: has a host that a proxy can not be asked to connect to"},
		{"type = 'UDP'", "probe.type: \"UDP\" is no type of probe; want \"tcp\", \"http\", \"connect\" or \"socks5\""},
	} {
		_, err := decode(minimal+"[probe]\n"+tt.text, catalog())
		problems, _ := errors.AsType[spec.Problems](err)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), ": "+tt.want) {
			t.Errorf("%s\nproblems %v\nwant one: %s", tt.text, problems, tt.want)
		}
	}
	none := catalog()
	none.Credentials = nil
	_, err := decode(minimal+"[probe]\ntype = 'http'\nurl = 'http://x/'\ncredentials = 'probe'", none)
	if err == nil || !strings.Contains(err.Error(), "the config has none: add [credentials.KEY] to it") {
		t.Errorf("no credentials in the config: %v", err)
	}
}

func TestProbeTargets(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"", "x", ":1", "x:", "x:0", "x:65536", "x:-1", "x:+1", "x:01", "x:a", "x:1:2", "2001:db8::1:443", "[2001:db8::1]", "[2001:db8::1:1", "[fe80::1%eth0]:1", "[192.0.2.1]:1", "[x]:1",
		"192.0.2:1", "4913:1", "256.0.0.1:1", "a b:1", "a/b:1", "-x:1", ".x:1", "x..y:1", "u@x:1", "x\n:1", "größe:1", "http://x:1", strings.Repeat("x", 300) + ":1",
	} {
		_, err := decode(minimal+"[probe]\ntype = 'connect'\ntarget = "+tomlString(target), catalog())
		problems, _ := errors.AsType[spec.Problems](err)
		if len(problems) != 1 || len(problems.Error()) > 400 || strings.Count(problems.Error(), "\n") > 0 {
			t.Errorf("%q: %v; want one problem", target, err)
		}
	}
}
