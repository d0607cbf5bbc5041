package spec_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// complete is a spec none of whose fields is at its zero value, but for the
// target of its probe: see targeting.
func complete() spec.Spec {
	return spec.Spec{
		Name: "Edge_1", Image: debian12, MachineType: "large", CPUs: 8, Memory: 16 * spec.GiB, Disk: 1537 * spec.MiB, Port: 8080,
		UserData: spec.Secret("#cloud-config\r\n# größe \x00\xff\n"), GuestAgent: true,
		VendorData: spec.Secret("#!/bin/sh\n\x00\xff"), NetworkConf: spec.Secret("version: 2\n"),
		Vars: map[string]spec.Secret{"upstream": spec.Secret("isp <&> \u2028 größe"), "empty": spec.Secret("")},
		Networks: []spec.NIC{
			{
				Network: spec.Network{Bridge: "br0"}, VLAN: 4094, Isolated: true, CleanTraffic: true, Inbound: 12500000, Outbound: 1000,
				Addresses: []netip.Prefix{netip.MustParsePrefix("2001:db8::10/64"), netip.MustParsePrefix("192.0.2.10/24")},
				Gateways:  []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")},
				DNS:       []netip.Addr{netip.MustParseAddr("2001:db8::53"), netip.MustParseAddr("192.0.2.53")},
			},
			{Network: spec.Network{Network: "lan"}}, {Network: spec.Network{Direct: "eth1"}},
		},
		Probe:  spec.Probe{Type: "http", URL: "http://c.example/?a=<1>&b=2", ExpectStatus: 200, Credentials: "/etc/probe credentials"},
		Labels: map[string]string{"region": "eu <&> \u2028 größe", "empty": ""},
		Hold:   true, Off: true, Drain: 1*time.Minute + 1, SkipCleanup: true,
		Own: "0123456789abcdef0123456789abcdef",
	}
}

// targeting is complete with a probe that asks for nothing but a connection.
func targeting() spec.Spec {
	s := complete()
	s.Probe = spec.Probe{Type: "connect", Target: "[2001:db8::1]:443", Credentials: "/etc/c"}
	return s
}

// unset gives the paths of the fields that hold nothing in any of values.
func unset(path string, values ...reflect.Value) []string {
	var out []string
	switch values[0].Kind() {
	case reflect.Struct:
		for i := range values[0].NumField() {
			var fields []reflect.Value
			for _, v := range values {
				fields = append(fields, v.Field(i))
			}
			out = append(out, unset(path+"."+values[0].Type().Field(i).Name, fields...)...)
		}
		return out
	case reflect.Slice:
		var elements []reflect.Value
		for _, v := range values {
			for i := range v.Len() {
				elements = append(elements, v.Index(i))
			}
		}
		if len(elements) > 0 {
			return unset(path+"[]", elements...)
		}
	}
	for _, v := range values {
		if !v.IsZero() {
			return nil
		}
	}
	return []string{path}
}

// TestI03_StoredSpecIsComplete fails when Spec gets a field and complete does
// not, or complete does and Encode does not.
func TestI03_StoredSpecIsComplete(t *testing.T) {
	t.Parallel()
	if fields := unset("Spec", reflect.ValueOf(complete()), reflect.ValueOf(targeting())); len(fields) > 0 {
		t.Errorf("complete() leaves %v unset: this test would not see Encode forget them", fields)
	}
	for _, want := range []spec.Spec{complete(), targeting()} {
		data, err := spec.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		expectStored(t, data, want)
	}
}

// expectStored checks that data is want, to the byte.
func expectStored(t *testing.T, data []byte, want spec.Spec) {
	t.Helper()
	got, err := spec.DecodeStored(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for i, data := range [][2]spec.Secret{{got.UserData, want.UserData}, {got.VendorData, want.VendorData}, {got.NetworkConf, want.NetworkConf}} {
		if string(data[0]) != string(data[1]) || (data[0] == nil) != (data[1] == nil) {
			t.Errorf("document %d for cloud-init is another", i)
		}
	}
	if got.Hash() != want.Hash() || got.Own != want.Own {
		t.Errorf("hash %v, own digest %s; want %v, %s", got.Hash(), got.Own, want.Hash(), want.Own)
	}
}

// TestI03_StoredFormIsFixed pins version 1: an agent has to read what the one
// before it wrote.
func TestI03_StoredFormIsFixed(t *testing.T) {
	t.Parallel()
	want := complete()
	want.UserData, want.Labels = spec.Secret("#!/bin/sh\n"), map[string]string{"region": "eu"}
	later := want
	want.VendorData, want.NetworkConf, want.Vars, want.Probe.Credentials = nil, nil, nil, ""
	want.Networks = []spec.NIC{{Network: spec.Network{Bridge: "br0"}}, {Network: spec.Network{Network: "lan"}}}
	form := `{"version":1,"name":"Edge_1","own":"0123456789abcdef0123456789abcdef",` +
		`"image":"debian-12","image_source":"https://images.example/12.raw","image_sha256":"` + strings.Repeat("12", 32) + `","image_format":"raw",` +
		`"machine_type":"large","cpus":8,"memory":"16GiB","disk":"1537MiB","port":8080,"install_guest_agent":true,` +
		`"network":[{"bridge":"br0"},{"network":"lan"}],` +
		`"probe":{"type":"http","url":"http://c.example/?a=\u003c1\u003e\u0026b=2","expect_status":200},"labels":{"region":"eu"},` +
		`"on_change":"hold","power":"off","drain":"1m0.000000001s","skip_cleanup":true,"user_data_base64":"IyEvYmluL3NoCg=="}`
	later.Vars = map[string]spec.Secret{"a": spec.Secret("<")}
	laterForm := strings.NewReplacer(
		`{"bridge":"br0"}`, `{"bridge":"br0","vlan":4094,"isolated":true,"clean_traffic":true,"inbound":"100Mbit/s","outbound":"8kbit/s",`+
			`"address":["2001:db8::10/64","192.0.2.10/24"],"gateway":["2001:db8::1","192.0.2.1"],"dns":["2001:db8::53","192.0.2.53"]}`,
		`{"network":"lan"}`, `{"network":"lan"},{"direct":"eth1"}`,
		`"expect_status":200`, `"expect_status":200,"credentials_file":"/etc/probe credentials"`,
		`NoCg=="}`, `NoCg==","vendor_data_base64":"IyEvYmluL3NoCgD/","network_config_base64":"dmVyc2lvbjogMgo=","vars":{"a":"\u003c"}}`,
	).Replace(form)
	for form, want := range map[string]spec.Spec{form: want, laterForm: later} {
		data, err := spec.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(form, string(data)); diff != "" {
			t.Errorf("form (-want +got):\n%s", diff)
		}
		expectStored(t, []byte(form), want)
	}
}

// randomSpec gives any spec that a decoder could make.
func randomSpec(r *rand.Rand) spec.Spec {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	hex := func(n int) string {
		return strings.Repeat(fmt.Sprintf("%016x", r.Uint64()), 4)[:n]
	}
	s := spec.Spec{
		Name:        pick("a", "Edge_1", "0.x", strings.Repeat("n", spec.MaxName)),
		Image:       spec.Image{Key: pick("debian-13", "x"), Source: pick("/a b", "/größe", "https://x.example/i?t=&<", "HTTPS://X.example/i"), SHA256: hex(64), Format: pick("qcow2", "raw")},
		MachineType: pick("", "small"),
		CPUs:        1 + r.IntN(spec.MaxCPUs),
		Memory:      spec.MinMemory + spec.Size(r.Int64N(int64((spec.MaxMemory-spec.MinMemory)/spec.MiB)+1))*spec.MiB,
		Port:        1 + r.IntN(65535),
		GuestAgent:  r.IntN(2) == 0,
		Probe:       spec.Probe{Type: "tcp"},
		Hold:        r.IntN(2) == 0, Off: r.IntN(2) == 0, SkipCleanup: r.IntN(2) == 0,
		Drain: time.Duration(r.Int64N(int64(spec.MaxDrain) + 1)),
		Own:   hex(32),
	}
	if r.IntN(3) > 0 {
		s.Disk = spec.MinDisk + spec.Size(r.Int64N(int64((spec.MaxDisk-spec.MinDisk)/spec.KiB)+1))*spec.KiB
	}
	for range 1 + r.IntN(spec.MaxNetworks) {
		s.Networks = append(s.Networks, spec.NIC{Network: []spec.Network{{Network: pick("lan", "default")}, {Bridge: pick("br0", "b23456789012345")}}[r.IntN(2)]})
	}
	for i := range s.Networks {
		n := &s.Networks[i]
		if r.IntN(2) == 0 {
			n.VLAN, n.Inbound, n.Outbound = r.IntN(spec.MaxVLAN+1), spec.Rate(r.IntN(1000000))*1000, spec.Rate(r.IntN(3)*1e9)
			n.Isolated, n.CleanTraffic = r.IntN(2) == 0, r.IntN(2) == 0
		}
		if r.IntN(3) == 0 {
			n.Addresses = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(r.IntN(256)), byte(1 + r.IntN(200))}), 16)}
			n.DNS = []netip.Addr{netip.MustParseAddr("127.0.0.53")}
		}
	}
	for i := range r.IntN(4) {
		if s.Vars == nil {
			s.Vars = map[string]spec.Secret{}
		}
		s.Vars[fmt.Sprintf("v-%d", i)] = spec.Secret(pick("", "\x00", `"\<>&`, "\u2028日本\ufffd"))
	}
	s.VendorData = []spec.Secret{nil, {}, spec.Secret("\xff\x00")}[r.IntN(3)]
	s.NetworkConf = []spec.Secret{nil, spec.Secret("version: 2")}[r.IntN(2)]
	if r.IntN(2) == 0 {
		s.Probe = spec.Probe{Type: "http", URL: pick("http://x/", "http://[2001:db8::1]:80/ü?<>&\u2028"), ExpectStatus: 100 + r.IntN(500)}
	}
	for i := range r.IntN(spec.MaxLabels + 1) {
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[fmt.Sprintf("l%d", i)] = pick("", "x", `"\<>&`, "\u2028日本\ufffd", strings.Repeat("v", spec.MaxLabelValue))
	}
	if n := r.IntN(200); n > 0 {
		s.UserData = make(spec.Secret, n-1)
		for i := range s.UserData {
			s.UserData[i] = byte(r.Uint32())
		}
	}
	return s
}

func TestI03_AnySpecIsStoredExactly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		s := randomSpec(rand.New(rand.NewPCG(seed, 0)))
		data, err := spec.Encode(s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		expectStored(t, data, s)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestI15_LargestSpecIsWithinMaxStored reckons with the most user-data instead
// of encoding it, which takes seconds.
func TestI15_LargestSpecIsWithinMaxStored(t *testing.T) {
	t.Parallel()
	wide := func(n int) string { return strings.Repeat("<", n) } // six bytes each in JSON
	s := complete()
	s.Name, s.Image.Key, s.MachineType = strings.Repeat("n", spec.MaxName), strings.Repeat("n", spec.MaxName), strings.Repeat("n", spec.MaxName)
	s.Image.Source, s.Probe.URL = "/"+wide(4094), "http://x/"+wide(spec.MaxURL-9)
	for i := range spec.MaxLabels - len(s.Labels) {
		s.Labels[fmt.Sprintf("%s%02d", strings.Repeat("l", spec.MaxLabelName-2), i)] = wide(spec.MaxLabelValue)
	}
	for len(s.Networks) < spec.MaxNetworks {
		s.Networks = append(s.Networks, spec.NIC{Network: spec.Network{Network: strings.Repeat("n", spec.MaxName)}})
	}
	s.UserData, s.VendorData, s.NetworkConf = spec.Secret{}, spec.Secret{}, nil
	s.Vars = map[string]spec.Secret{"v": spec.Secret(wide(seed.MaxMetaData / 6))}
	data, err := spec.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	if most := len(data) + base64.StdEncoding.EncodedLen(seed.MaxUserData+seed.MaxVendorData+seed.MaxNetworkConfig) + 100; most > spec.MaxStored {
		t.Errorf("a spec can become %d bytes; MaxStored is %d", most, spec.MaxStored)
	}
	if _, err := spec.DecodeStored(append(data, strings.Repeat(" ", spec.MaxStored)...)); err == nil {
		t.Error("a document over MaxStored was accepted")
	}
}

func TestEncodeRefusesWhatItCanNotReadBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*spec.Spec){
		"no name":              func(s *spec.Spec) { s.Name = "" },
		"no own digest":        func(s *spec.Spec) { s.Own = "" },
		"no network":           func(s *spec.Spec) { s.Networks = nil },
		"disk of odd bytes":    func(s *spec.Spec) { s.Disk++ },
		"label not UTF-8":      func(s *spec.Spec) { s.Labels["region"] = "\xff" },
		"drain beyond a bound": func(s *spec.Spec) { s.Drain = spec.MaxDrain + 1 },
		"variable of no name":  func(s *spec.Spec) { s.Vars[""] = nil },
		"odd bandwidth":        func(s *spec.Spec) { s.Networks[0].Inbound = 1001 },
		"URL and target":       func(s *spec.Spec) { s.Probe.Target = "x:1" },
		"address of no host":   func(s *spec.Spec) { s.Networks[0].Addresses[0] = s.Networks[0].Addresses[0].Masked() },
		"no image":             func(s *spec.Spec) { s.Image = spec.Image{} },
	} {
		s := complete()
		change(&s)
		if data, err := spec.Encode(s); err == nil {
			t.Errorf("%s: encoded as %s", name, data)
		}
	}
	s := complete()
	s.Labels, s.Vars, s.NetworkConf = map[string]string{}, map[string]spec.Secret{}, spec.Secret{}
	if _, err := spec.Encode(s); err != nil {
		t.Errorf("labels, variables and network-config that are empty and not nil: %v", err)
	}
}
