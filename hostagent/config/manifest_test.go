package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestI12_ManifestURLs(t *testing.T) {
	t.Parallel()
	decode := func(url string) (config.Config, error) {
		return config.Decode("c", fmt.Appendf(nil, "[manifest]\nurl = %q", url))
	}
	for url, want := range map[string]string{
		"https://fleet.example/{host}.json":     "https://fleet.example/kvm7.json",
		"https://[2001:db8::1]:8443/a/{host}/m": "https://[2001:db8::1]:8443/a/kvm7/m",
		"https://fleet.example":                 "https://fleet.example",
	} {
		c, err := decode(url)
		if got := c.Manifest.For("kvm7"); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", url, got, err, want)
		}
	}
	for _, url := range []string{
		"", "fleet.example/x", "http://fleet.example/x", "ftp://x/y", "https:///x", "https://u:hunter2@x/y", "https://hunter2@x/y", "https://x/y?token=hunter2",
		"https://x/y?", "https://x/y#hunter2", "https://{host}.x/y", "https://x:{host}/y", "https://x/{name}", "https://x/{", "https://x/ y", "https://x/\n", "https://x/" + strings.Repeat("a", 2048),
	} {
		if _, err := decode(url); err == nil {
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: problem %q quotes a secret", url, err)
		}
	}
}

func TestManifestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"what is not in the catalog", "[manifest.policy]\nimages = ['a']\nmachine_types = ['b']\ncredentials = ['c']", []string{
			`c:2:1: manifest.policy.images: there is no [images.a]; add it, or name another`,
			`c:3:1: manifest.policy.machine_types: there is no [machine_types.b]; add it, or name another`,
			`c:4:1: manifest.policy.credentials: there is no [credentials.c]; add it, or name another`}},
		{"hosts", "[manifest.policy]\nprobe_hosts = ['a:80', '*']", []string{
			`c:2:16: manifest.policy.probe_hosts[0]: "a:80" is no host; want a name such as "connectivity.example", or an address without brackets and port`,
			`c:2:24: manifest.policy.probe_hosts[1]: "*" is no host; want a name such as "connectivity.example", or an address without brackets and port`}},
		{"half a certificate", "[tls]\ncert_file = '/a'", []string{
			`c:1:2: tls: has only one of cert_file and key_file; a client certificate needs both`}},
		{"a token in the clear", "[manifest]\ninsecure_http = true\nurl = 'http://x/'\n[tls]\ntoken_file = '/t'", []string{
			`c:5:1: tls.token_file: is given with an http URL in [manifest]: anyone on the way could read the token; want an https URL`}},
		{"bounds", "[manifest]\ninterval = '4s'\nwait = '6m'\n[manifest.policy]\nmax_proxies = 0\nmax_disk = '1025TiB'", []string{
			`c:2:1: manifest.interval: "4s" is not a duration that is allowed; want a number with its unit, from "5s" to "24h0m0s"`,
			`c:3:1: manifest.wait: "6m" is not a duration that is allowed; want a number with its unit, from "0s" to "5m0s"`,
			`c:5:1: manifest.policy.max_proxies: 0 is out of bounds; want an integer from 1 to 1000`,
			`c:6:1: manifest.policy.max_disk: 1025TiB is out of bounds; want 0GiB, for no bound, to 1024TiB`}},
	}
	for _, tt := range tests {
		_, err := config.Decode("c", []byte(tt.text))
		problems, _ := errors.AsType[spec.Problems](err)
		if diff := cmp.Diff(tt.want, problems.Lines()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestRemoteAllowsTheDefaultNetwork: and with an empty list nothing, where an
// absent one is all of the catalog.
func TestRemoteAllowsTheDefaultNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]spec.Network{
		"":                               {{Network: "default"}},
		"[defaults]\nbridge = 'br0'":     {{Bridge: "br0"}},
		"manifest.policy.direct = ['e']": {{Direct: "e"}, {Network: "default"}},
		"manifest.policy.networks = ['default', 'n']": {{Network: "default"}, {Network: "n"}},
	} {
		c, err := config.Decode("c", []byte(text))
		if diff := cmp.Diff(want, c.Remote().Networks); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	c, err := config.Decode("c", []byte("[manifest.policy]\nimages = []"))
	if r := c.Remote(); err != nil || r.Images == nil || r.MachineTypes != nil {
		t.Errorf("images %#v, machine types %#v, error %v; want none and all", r.Images, r.MachineTypes, err)
	}
}
