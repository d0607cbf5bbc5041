package seed

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Golden values: they never change, or every guest in the field would look
// changed after an upgrade.
func TestI10_Seed29_ContentHashGolden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		in         Input
	}{
		{"nothing set", "1:8faaaae5ef6e1cbb1da0e37a933b07fc7e1c7a32bf44f75acdf629bc4a3d9af4", Input{InstanceID: "i"}},
		{"NICs", "1:ac36db3e6c43b3fa910bbb4161d4808acfb39016061fe5d32d7ae011a477a9f0", Input{InstanceID: "i", NICs: threeNICs()}},
		{"everything set", "1:cb8b05881457db70cfde4317c9457912c34063d81aa1ef28c610dd376b32b567", sample()},
	} {
		if got := test.in.ContentHash(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Every change that gives another guest gives another hash, and no two of them
// the same one.
func TestSeed29_ContentHashTellsInputsApart(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*Input){
		"none":                  func(*Input) {},
		"user-data byte":        func(in *Input) { in.UserData[3] ^= 1 },
		"user-data longer":      func(in *Input) { in.UserData = append(in.UserData, '\n') },
		"user-data moved":       func(in *Input) { in.VendorData, in.UserData = in.UserData, in.VendorData },
		"user-data empty":       func(in *Input) { in.UserData = nil },
		"vendor-data byte":      func(in *Input) { in.VendorData[3] ^= 1 },
		"vendor-data empty":     func(in *Input) { in.VendorData = []byte{} },
		"vendor-data absent":    func(in *Input) { in.VendorData = nil },
		"network-config byte":   func(in *Input) { in.NetworkConfig[3] ^= 1 },
		"network-config absent": func(in *Input) { in.NetworkConfig = nil },
		"hostname":              func(in *Input) { in.Hostname = "scraper-eu-2" },
		"hostname absent":       func(in *Input) { in.Hostname = "" },
		"var value":             func(in *Input) { in.Vars["a"] = "2" },
		"var name":              func(in *Input) { delete(in.Vars, "a"); in.Vars["A"] = "1" },
		"var added":             func(in *Input) { in.Vars["d"] = "" },
		"vars absent":           func(in *Input) { in.Vars = nil },
		"agent off":             func(in *Input) { in.GuestAgent = false },
		"NICs":                  func(in *Input) { in.NICs = threeNICs() },
		"NICs on DHCP":          func(in *Input) { in.NICs = make([]NIC, 3) },
		"one NIC less":          func(in *Input) { in.NICs = threeNICs()[:2] },
		"NICs' order":           func(in *Input) { in.NICs = threeNICs(); slices.Reverse(in.NICs) },
		"address": func(in *Input) {
			in.NICs = threeNICs()
			in.NICs[0].Addresses[0] = netip.MustParsePrefix("192.0.2.11/24")
		},
		"address's length": func(in *Input) {
			in.NICs = threeNICs()
			in.NICs[0].Addresses[0] = netip.MustParsePrefix("192.0.2.10/25")
		},
		"gateway": func(in *Input) { in.NICs = threeNICs(); in.NICs[0].Gateways = in.NICs[0].Gateways[:1] },
		"gateway as DNS": func(in *Input) {
			in.NICs = threeNICs()
			in.NICs[0].Gateways, in.NICs[0].DNS = in.NICs[0].DNS, in.NICs[0].Gateways
		},
		"DNS":           func(in *Input) { in.NICs = threeNICs(); in.NICs[2].DNS = addrs("9.9.9.10") },
		"DNS elsewhere": func(in *Input) { in.NICs = threeNICs(); in.NICs[1].DNS, in.NICs[2].DNS = in.NICs[2].DNS, nil },
	}
	seen := map[string]string{}
	for name, change := range changes {
		in := sample()
		change(&in)
		hash := in.ContentHash()
		if !strings.HasPrefix(hash, "1:") || len(hash) != 2+64 {
			t.Errorf("%s: form of %q", name, hash)
		}
		if other, taken := seen[hash]; taken {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[hash] = name
	}
}

// MACs come from host and name, and the text of the network-config from this
// package's version: neither makes another guest.
func TestI10_ContentHashIgnoresMACs(t *testing.T) {
	t.Parallel()
	a, b := Input{InstanceID: "i", NICs: threeNICs()}, Input{InstanceID: "i", NICs: threeNICs()}
	for i := range b.NICs {
		b.NICs[i].MAC = ""
	}
	if a.ContentHash() != b.ContentHash() {
		t.Error("another MAC looks like another guest")
	}
	if bytes.Equal(a.networkConfig(), b.networkConfig()) {
		t.Error("another MAC gives the same network-config: nothing was compared")
	}
	none := Input{InstanceID: "i", NICs: []NIC{}}
	if none.ContentHash() != (Input{InstanceID: "i"}).ContentHash() || len(none.networkConfig()) != 0 {
		t.Error("no NICs differ from nil")
	}
}

func TestI08_ContentHashIgnoresInstanceID(t *testing.T) {
	t.Parallel()
	other := sample()
	other.InstanceID = "another"
	if sample().ContentHash() != other.ContentHash() {
		t.Error("a new incarnation looks like another guest")
	}
	empty := Input{InstanceID: "i", UserData: []byte{}, NetworkConfig: []byte{}, Vars: map[string]string{}}
	if empty.ContentHash() != (Input{InstanceID: "i"}).ContentHash() {
		t.Error("empty and nil differ where the image does not")
	}
	if mustBuild(t, empty).SHA256 != mustBuild(t, Input{InstanceID: "i"}).SHA256 {
		t.Error("empty and nil give two images")
	}
}
