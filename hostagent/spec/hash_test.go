package spec_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// pinned are specs whose hashes a release has given out.
func pinned() map[string]spec.Spec {
	return map[string]spec.Spec{
		"minimal": {
			Name: "a", Image: debian13, CPUs: 1, Memory: 512 * spec.MiB, Port: 3128, GuestAgent: true,
			Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}}, Probe: spec.Probe{Type: "tcp"},
		},
		"full": {
			Name: "Edge_1", Image: debian12, MachineType: "large", CPUs: 8, Memory: 16 * spec.GiB, Disk: 10 * spec.GiB, Port: 8080,
			UserData: spec.Secret("#cloud-config\r\n# größe\n"), Networks: []spec.NIC{{Network: spec.Network{Bridge: "br0"}}, {Network: spec.Network{Network: "lan"}}},
			Probe:  spec.Probe{Type: "http", URL: "http://c.example/", ExpectStatus: 204},
			Labels: map[string]string{"region": "eu", "tier": "1"},
		},
		"binary": {
			Name: "edge.example.test", Image: debian12, CPUs: 64, Memory: spec.TiB, Disk: 16 * spec.TiB, Port: 1, GuestAgent: true,
			UserData: spec.Secret("\x1f\x8b\x00\xff"), Networks: []spec.NIC{{Network: spec.Network{Bridge: "br0"}}}, Probe: spec.Probe{Type: "tcp"},
		},
		"every key": {
			Name: "a", Image: debian13, CPUs: 1, Memory: 512 * spec.MiB, Port: 3128, GuestAgent: true,
			UserData: spec.Secret("## template: jinja\n"), VendorData: spec.Secret("#!/bin/sh\n"), NetworkConf: spec.Secret("version: 2\n"),
			Vars: map[string]spec.Secret{"upstream": spec.Secret("isp-a"), "b": spec.Secret("")},
			Networks: []spec.NIC{
				{Network: spec.Network{Bridge: "br0"}, VLAN: 7, Isolated: true, CleanTraffic: true, Inbound: 12500000, Outbound: 1000},
				{Network: spec.Network{Direct: "eth1"}, Outbound: 125000000},
			},
			Probe: spec.Probe{Type: "connect", Target: "c.example:443", Credentials: "/c"},
		},
		"static": {
			Name: "a", Image: debian13, CPUs: 1, Memory: 512 * spec.MiB, Port: 3128, GuestAgent: true,
			Networks: []spec.NIC{{
				Network:   spec.Network{Bridge: "br0"},
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24"), netip.MustParsePrefix("2001:db8::10/64")},
				Gateways:  []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1")},
				DNS:       []netip.Addr{netip.MustParseAddr("192.0.2.53")},
			}, {Network: spec.Network{Network: "default"}}},
			Probe: spec.Probe{Type: "tcp"},
		},
	}
}

// TestI10_GoldenHashes pins version 1. A difference here means that an upgrade
// would recreate or restart running guests: do not change the values, give the
// new form a new version.
func TestI10_GoldenHashes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"minimal":   "1:3d8c67f2cd4cbb51ca4ab4bb8da91697:2529854179c58ced59ab7c9ca5265f3f",
		"full":      "1:ebb60c379c04673d1587b55e16f197ee:ab3ceb2ea736dd50d1f9a5488b65c7c8",
		"every key": "1:c55f91b7dbdbcd4943a94976ee89d056:2529854179c58ced59ab7c9ca5265f3f:ce56be39dcece845d52ddebf1ed4365b",
		"static":    "1:8cdbfc24bf521fc61668872fe0d843e8:2529854179c58ced59ab7c9ca5265f3f",
		"binary":    "1:a95e768ab1dd0859ba302668fa695074:b62093b80fb3664634f4d11f736f470d",
	}
	for name, s := range pinned() {
		if got := s.Hash().String(); got != want[name] {
			t.Errorf("%s: hash %s; want %s", name, got, want[name])
		}
	}
}

func TestHashCovers(t *testing.T) {
	t.Parallel()
	const (
		nothing = iota
		incarnation
		machine
		live
	)
	tests := []struct {
		name   string
		change func(*spec.Spec)
		want   int
	}{
		{"image digest", func(s *spec.Spec) { s.Image.SHA256 = strings.Repeat("f", 64) }, incarnation},
		{"image format", func(s *spec.Spec) { s.Image.Format = "qcow2" }, incarnation},
		{"disk", func(s *spec.Spec) { s.Disk++ }, incarnation},
		{"network to bridge", func(s *spec.Spec) { s.Networks[1] = spec.NIC{Network: spec.Network{Bridge: "lan"}} }, incarnation},
		{"network order", func(s *spec.Spec) { s.Networks[0], s.Networks[1] = s.Networks[1], s.Networks[0] }, incarnation},
		{"one network less", func(s *spec.Spec) { s.Networks = s.Networks[:1] }, incarnation},
		{"user-data byte", func(s *spec.Spec) { s.UserData = append(s.UserData, '\n') }, incarnation},
		{"no user-data", func(s *spec.Spec) { s.UserData = nil }, incarnation},
		{"guest agent", func(s *spec.Spec) { s.GuestAgent = !s.GuestAgent }, incarnation},
		{"name, by the host name", func(s *spec.Spec) { s.Name = "other" }, incarnation},
		{"cpus", func(s *spec.Spec) { s.CPUs++ }, machine},
		{"memory", func(s *spec.Spec) { s.Memory += spec.MiB }, machine},
		{"machine type's key", func(s *spec.Spec) { s.MachineType = "other" }, nothing},
		{"image key", func(s *spec.Spec) { s.Image.Key = "other" }, nothing},
		{"image source", func(s *spec.Spec) { s.Image.Source = "/moved" }, nothing},
		{"to a macvtap", func(s *spec.Spec) { s.Networks[1].Network = spec.Network{Direct: "lan"} }, incarnation},
		{"vlan", func(s *spec.Spec) { s.Networks[0].VLAN = 1 }, incarnation},
		{"vlan of the other", func(s *spec.Spec) { s.Networks[1].VLAN = 1 }, incarnation},
		{"isolated", func(s *spec.Spec) { s.Networks[0].Isolated = true }, incarnation},
		{"clean_traffic", func(s *spec.Spec) { s.Networks[0].CleanTraffic = true }, incarnation},
		{"inbound", func(s *spec.Spec) { s.Networks[0].Inbound = 1000 }, live},
		{"outbound", func(s *spec.Spec) { s.Networks[1].Outbound = 1000 }, live},
		{"address", func(s *spec.Spec) { s.Networks[0].Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")} }, incarnation},
		{"vendor data", func(s *spec.Spec) { s.VendorData = spec.Secret("#!/bin/sh\n") }, incarnation},
		{"vendor data that is empty", func(s *spec.Spec) { s.VendorData = spec.Secret{} }, incarnation},
		{"network-config", func(s *spec.Spec) { s.NetworkConf = spec.Secret("version: 2\n") }, incarnation},
		{"network-config that is empty", func(s *spec.Spec) { s.NetworkConf = spec.Secret{} }, nothing},
		{"variable", func(s *spec.Spec) { s.Vars = map[string]spec.Secret{"a": spec.Secret("")} }, incarnation},
		{"no variables", func(s *spec.Spec) { s.Vars = map[string]spec.Secret{} }, nothing},
		{"probe's credentials", func(s *spec.Spec) { s.Probe.Credentials = "/c" }, nothing},
		{"probe's target", func(s *spec.Spec) { s.Probe.Target = "c.example:443" }, nothing},
		{"port", func(s *spec.Spec) { s.Port++ }, nothing},
		{"probe", func(s *spec.Spec) { s.Probe = spec.Probe{Type: "tcp"} }, nothing},
		{"label", func(s *spec.Spec) { s.Labels["region"] = "us" }, nothing},
		{"no labels", func(s *spec.Spec) { s.Labels = nil }, nothing},
		{"on_change", func(s *spec.Spec) { s.Hold = true }, nothing},
		{"power", func(s *spec.Spec) { s.Off = true }, nothing},
		{"drain", func(s *spec.Spec) { s.Drain = time.Minute }, nothing},
		{"skip_cleanup", func(s *spec.Spec) { s.SkipCleanup = true }, nothing},
		{"own digest", func(s *spec.Spec) { s.Own = strings.Repeat("0", 32) }, nothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, after := pinned()["full"], pinned()["full"]
			tt.change(&after)
			b, a := before.Hash(), after.Hash()
			if changed := b.Incarnation != a.Incarnation; changed != (tt.want == incarnation) {
				t.Errorf("incarnation part changed: %v", changed)
			}
			if changed := b.Live != a.Live; changed != (tt.want == live) {
				t.Errorf("live part changed: %v", changed)
			}
			if changed := b.Machine != a.Machine; changed != (tt.want == machine) {
				t.Errorf("machine part changed: %v", changed)
			}
		})
	}
}

// TestI10_HashIgnoresForm: what does not change the meaning of a document does
// not change the hash.
func TestI10_HashIgnoresForm(t *testing.T) {
	t.Parallel()
	const text = "image = 'debian-13'\nmachine_type = 'small'\ndisk = '2GiB'\nuser_data = '#!/bin/sh'\n"
	first, err := decode(text, catalog())
	if err != nil {
		t.Fatal(err)
	}
	defaults := catalog()
	defaults.Defaults = spec.Defaults{Image: "debian-13", MachineType: "small", Disk: 2 * spec.GiB}
	for name, form := range map[string]struct {
		text string
		cat  spec.Catalog
	}{
		"comment":       {"# a comment\n" + text, catalog()},
		"key order":     {"user_data = '#!/bin/sh'\ndisk = '2GiB'\nmachine_type = 'small'\nimage = 'debian-13'", catalog()},
		"line ends":     {strings.ReplaceAll(text, "\n", "\r\n"), catalog()},
		"other unit":    {strings.Replace(text, "2GiB", "2048MiB", 1), catalog()},
		"base64":        {"image = 'debian-13'\nmachine_type = 'small'\ndisk = '2GiB'\nuser_data_base64 = 'IyEvYmluL3No'", catalog()},
		"by defaults":   {"user_data = '#!/bin/sh'", defaults},
		"default given": {text + "install_guest_agent = true\n[[network]]\nnetwork = 'default'", catalog()},
		"cpus, memory":  {"image = 'debian-13'\ncpus = 1\nmemory = '512MiB'\ndisk = '2GiB'\nuser_data = '#!/bin/sh'", catalog()},
	} {
		s, err := decode(form.text, form.cat)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s.Hash() != first.Hash() {
			t.Errorf("%s: hash %v; want %v", name, s.Hash(), first.Hash())
		}
	}
}

func TestParseHash(t *testing.T) {
	t.Parallel()
	h := pinned()["full"].Hash()
	limited := pinned()["every key"].Hash()
	for _, h := range []spec.Hash{h, limited} {
		if got, err := spec.ParseHash(h.String()); err != nil || got != h {
			t.Errorf("ParseHash(%s) = %v, %v", h, got, err)
		}
	}
	for _, text := range []string{"", "1", "1:a", "1:a:b:", "1:a:b:c:d", "2", "0:a:b", "-1:a:b", "x:a:b"} {
		if got, err := spec.ParseHash(text); err == nil {
			t.Errorf("ParseHash(%q) = %v; want an error", text, got)
		}
	}
}
