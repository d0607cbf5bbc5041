package spec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func remoteSpec(edit func(*spec.Spec)) spec.Spec {
	s := spec.Spec{
		Name: "a", Image: spec.Image{Key: "debian-13"}, MachineType: "small", CPUs: 1, Memory: spec.GiB, Disk: 10 * spec.GiB,
		Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}}, Probe: spec.Probe{Type: spec.ProbeTCP},
	}
	edit(&s)
	return s
}

func TestCheckRemote(t *testing.T) {
	t.Parallel()
	none := spec.Remote{Images: []string{}, MachineTypes: []string{}, MaxProxies: 1, MaxDisk: spec.TiB}
	some := spec.Remote{
		Images: []string{"debian-13"}, MachineTypes: []string{"small"}, VLAN: true, SkipCleanup: true, MaxProxies: 1,
		Networks:    []spec.Network{{Network: "default"}, {Bridge: "br0"}, {Direct: "eth1"}},
		Addresses:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		ProbeHosts:  []string{"Connectivity.example", "2001:db8::1"},
		Credentials: map[string]string{"probe": "/c/probe"},
	}
	nic := func(n spec.NIC) func(*spec.Spec) { return func(s *spec.Spec) { s.Networks = []spec.NIC{n} } }
	probe := func(p spec.Probe) func(*spec.Spec) { return func(s *spec.Spec) { s.Probe = p } }
	tests := []struct {
		name           string
		edit           func(*spec.Spec)
		ofNone, ofSome string // keys refused
	}{
		{"plain", func(*spec.Spec) {}, "image machine_type network[0].network", ""},
		{"image", func(s *spec.Spec) { s.Image.Key = "other" }, "image machine_type network[0].network", "image"},
		{"own size", func(s *spec.Spec) { s.MachineType = "" }, "image cpus network[0].network", "cpus"},
		{"the image's disk", func(s *spec.Spec) { s.Disk = 0 }, "image machine_type disk network[0].network", ""},
		{"bridge", nic(spec.NIC{Network: spec.Network{Bridge: "br0"}, VLAN: 7}), "image machine_type network[0].bridge network[0].vlan", ""},
		{"a bridge's name as a network's", nic(spec.NIC{Network: spec.Network{Network: "br0"}}), "image machine_type network[0].network", "network[0].network"},
		{"direct", nic(spec.NIC{Network: spec.Network{Direct: "eth0"}}), "image machine_type network[0].direct", "network[0].direct"},
		{"address", nic(spec.NIC{Network: spec.Network{Bridge: "br0"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24")}}), "image machine_type network[0].bridge network[0].address", ""},
		{"address elsewhere", nic(spec.NIC{Network: spec.Network{Bridge: "br0"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.3.7/8")}}), "image machine_type network[0].bridge network[0].address", "network[0].address"},
		{"url", probe(spec.Probe{Type: "http", URL: "http://connectivity.example:80/x"}), "image machine_type network[0].network probe.url", ""},
		{"url elsewhere", probe(spec.Probe{Type: "http", URL: "http://connectivity.example.evil/x"}), "image machine_type network[0].network probe.url", "probe.url"},
		{"target", probe(spec.Probe{Type: "connect", Target: "[2001:db8::1]:443", Credentials: "/c/probe"}), "image machine_type network[0].network probe.target probe.credentials", ""},
		{"target and credentials elsewhere", probe(spec.Probe{Type: "connect", Target: "10.0.0.1:443", Credentials: "/c/other"}), "image machine_type network[0].network probe.target probe.credentials", "probe.target probe.credentials"},
		{"skip_cleanup", func(s *spec.Spec) { s.SkipCleanup = true }, "image machine_type network[0].network skip_cleanup", ""},
	}
	keys := func(refused []spec.Refusal) string {
		var out []string
		for _, r := range refused {
			if !strings.Contains(r.Error(), "allowed") && r.Key != "disk" || strings.Contains(r.Error(), "/c/") {
				t.Errorf("%q does not say what is allowed, or says too much", r.Error())
			}
			out = append(out, r.Key)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.ofNone, keys(spec.CheckRemote(remoteSpec(tt.edit), none))); diff != "" {
			t.Errorf("%s, nothing allowed (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.ofSome, keys(spec.CheckRemote(remoteSpec(tt.edit), some))); diff != "" {
			t.Errorf("%s, some allowed (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestI15_CheckRemoteAll(t *testing.T) {
	t.Parallel()
	two := []spec.Spec{remoteSpec(func(*spec.Spec) {}), remoteSpec(func(*spec.Spec) {})}
	tests := []struct {
		name   string
		specs  []spec.Spec
		remote spec.Remote
		want   int
	}{
		{"at the bounds", two, spec.Remote{MaxProxies: 2, MaxMemory: 2 * spec.GiB, MaxDisk: 20 * spec.GiB}, 0},
		{"no bounds on sums", two, spec.Remote{MaxProxies: 2}, 0},
		{"beyond each", two, spec.Remote{MaxProxies: 1, MaxMemory: 2*spec.GiB - 1, MaxDisk: 20*spec.GiB - 1}, 3},
		{"a sum beyond int64", []spec.Spec{{Memory: 1 << 62}, {Memory: 1 << 62}}, spec.Remote{MaxProxies: 2, MaxMemory: spec.TiB}, 1},
		{"nothing said", two, spec.Remote{}, 1},
	}
	for _, tt := range tests {
		if got := spec.CheckRemoteAll(tt.specs, tt.remote); len(got) != tt.want {
			t.Errorf("%s: %v; want %d refusals", tt.name, got, tt.want)
		}
	}
}
