package spec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func decodeJSON(text string) (spec.Spec, error) {
	return spec.DecodeJSON("p1", "p1.json", []byte(text), catalog())
}

const minimalJSON = `{"image": "debian-13", "machine_type": "small"`

func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	const text = minimalJSON + `, "cpus_": 0,
 "disk": "10GiB", "port": 8080, "user_data": "#!/bin/sh\n", "vendor_data_base64": "", "network_config": "",
 "vars": {"upstream": "isp-a"}, "labels": {"region": "eu"}, "install_guest_agent": false,
 "network": [{"bridge": "br0", "address": "192.0.2.10/24", "gateway": ["192.0.2.1"], "vlan": 7, "inbound": "1Gbit/s"}],
 "probe": {"type": "connect", "target": "c.example:443", "credentials": "probe"},
 "on_change": "hold", "power": "off", "drain": "20s", "skip_cleanup": true}`
	const same = `image = 'debian-13'
machine_type = 'small'
disk = '10GiB'
port = 8080
user_data = "#!/bin/sh\n"
vendor_data = ''
network_config_base64 = ''
vars.upstream = 'isp-a'
labels.region = 'eu'
install_guest_agent = false
on_change = 'hold'
power = 'off'
drain = '20s'
skip_cleanup = true
network = [{bridge = 'br0', address = ['192.0.2.10/24'], gateway = '192.0.2.1', vlan = 7, inbound = '1000Mbit/s'}]
probe = {type = 'connect', target = 'c.example:443', credentials = 'probe'}
`
	got, err := decodeJSON(strings.Replace(text, `"cpus_": 0,`, "", 1))
	if err != nil {
		t.Fatal(err)
	}
	want, err := decode(same, catalog())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" || got.Hash() != want.Hash() || got.VendorData == nil {
		t.Errorf("vendor data nil: %v, hashes %v, %v (-TOML +JSON):\n%s", got.VendorData == nil, want.Hash(), got.Hash(), diff)
	}
	_, err = decodeJSON(text)
	if diff := cmp.Diff(`p1.json:1:49: cpus_: unknown key; did you mean "cpus"?`, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeJSONProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`[]`, "p1.json:1:1: is not a JSON object: { … }"},
		{minimalJSON + `, "Port": 1}`, `p1.json:1:49: Port: unknown key; did you mean "port"?`},
		{minimalJSON + ",\n \"port\": 2.0}", "p1.json:2:2: port: is the number 2.0; want an integer from 1 to 65535"},
		{minimalJSON + `, "port": 1e3}`, "p1.json:1:49: port: is the number 1e3; want an integer from 1 to 65535"},
		{minimalJSON + `, "port": 9223372036854775808}`, "p1.json:1:49: port: is the number 9223372036854775808; want an integer from 1 to 65535"},
		{minimalJSON + `, "port": null}`, "p1.json:1:49: port: is null; want an integer from 1 to 65535"},
		{minimalJSON + `, "image": "debian-12"}`, "p1.json:1:49: image: is given twice in one object, first in line 1"},
		{minimalJSON + `, "probe": {"type": "tcp", "type": "http"}}`, "p1.json:1:74: probe.type: is given twice in one object, first in line 1"},
		{minimalJSON + `, "user_data_file": "/etc/shadow"}`, "p1.json:1:49: user_data_file: unknown key; no file of the host can be named here; give user_data or user_data_base64"},
		{minimalJSON + `, "vendor_data_file": "x"}`, "p1.json:1:49: vendor_data_file: unknown key; no file of the host can be named here; give vendor_data or vendor_data_base64"},
		{minimalJSON + `, "network_config_file": "x"}`, "p1.json:1:49: network_config_file: unknown key; no file of the host can be named here; give network_config or network_config_base64"},
		{minimalJSON + `, "name": "p2"}`, "p1.json:1:49: name: unknown key; the name is given outside the object"},
		{minimalJSON + `} {`, "p1.json:1:49: not JSON: invalid character '{' after top-level value"},
		{minimalJSON + `, "network": []}`, "p1.json:1:49: network: is empty; want at least one [[network]], or leave it out"},
	} {
		got, err := decodeJSON(tt.text)
		if problems, ok := errors.AsType[spec.Problems](err); !ok || tt.want != problems.Error() {
			t.Errorf("%s\nproblems %v\nwant %s", tt.text, err, tt.want)
		}
		if diff := cmp.Diff(spec.Spec{}, got, compareAddresses); diff != "" {
			t.Errorf("%s: a broken document gave a spec:\n%s", tt.text, diff)
		}
	}
}

// TestDecodeTable: a document of many proxies, whose owner reads their names.
func TestDecodeTable(t *testing.T) {
	t.Parallel()
	const text = `{"proxies": [
 {"name": "a", "image": "debian-13", "machine_type": "small"},
 {"name": "-rf", "image": "debian-13", "machine_type": "small"},
 {"name": "c", "image": "debian-13", "machine_type": "small", "network_config": "- list"}]}`
	d, err := doc.ParseJSON("m", []byte(text), spec.MaxJSON)
	if err != nil {
		t.Fatal(err)
	}
	var got []spec.Spec
	for _, p := range d.Root().Tables("proxies", 10) {
		name, _ := p.String("name")
		s := spec.DecodeTable(name, p, catalog(), nil)
		if p.Failed() != (name != "a") {
			t.Errorf("%s failed: %v", name, p.Failed())
		}
		got = append(got, s)
	}
	want := `m:3:2: proxies[1]: proxy name "-rf": a name becomes an argument of commands, and this one would be read as an option; allowed: a letter or digit, then letters, digits, "_", "." and "-"
m:4:63: proxies[2].network_config: is a YAML list; a mapping such as "version: 2" is needed`
	if diff := cmp.Diff(want, fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	alone, err := spec.DecodeTOML("a", "a.toml", []byte(minimal), catalog(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(alone, got[0], compareAddresses); diff != "" {
		t.Errorf("(-from a file +from a table):\n%s", diff)
	}
}

// TestRichSpec: the example of every key decodes without a warning, together
// with the files that it names.
func TestRichSpec(t *testing.T) {
	t.Parallel()
	const dir = "../../testdata/specs"
	data, err := os.ReadFile(filepath.Join(dir, "edge.toml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.DecodeTOML("edge", "edge.toml", data, catalog(), func(rel string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, rel)) })
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	text, err := spec.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"vendor_data_base64", "vars", "labels", "user_data_base64"} {
		if stored[key] == nil {
			t.Errorf("the example has no %s", key)
		}
	}
	if n := s.Networks[0]; n.VLAN == 0 || !n.Isolated || !s.Networks[1].CleanTraffic || n.Inbound == 0 || n.Outbound == 0 || len(n.Addresses) < 2 || len(n.Gateways) < 2 || len(n.DNS) == 0 {
		t.Errorf("the example's networks lack a key: %+v", s.Networks)
	}
	if s.Probe.Type != spec.ProbeConnect || s.Probe.Credentials == "" {
		t.Errorf("the example's probe is %+v", s.Probe)
	}
}

// FuzzDecodeJSON: no document panics, each problem is at a place inside the
// document, and what is accepted decodes again to the same hash and is stored.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{
		"", "{}", minimalJSON + "}", minimalJSON + `, "network": [{"bridge": "br0", "address": "192.0.2.1/24", "inbound": "8kbit/s"}], "vars": {"a": "\u0000"}}`,
		minimalJSON + `, "probe": {"type": "socks5", "target": "[::2]:1"}}`, minimalJSON + `, "image": 1}`, `{"cpus": 1e1, "memory": null, "user_data_file": "x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeJSON(string(data))
		if err == nil {
			again, err := decodeJSON(string(data))
			if err != nil || again.Hash() != s.Hash() {
				t.Fatalf("decoded again: %v, hash %v then %v", err, s.Hash(), again.Hash())
			}
			if _, err := spec.Encode(s); err != nil {
				t.Fatalf("accepted, but can not be stored: %v", err)
			}
			return
		}
		lines := strings.Split(string(data), "\n")
		for _, p := range err.(spec.Problems) {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
				t.Fatalf("place outside the document: %v", p)
			}
		}
	})
}
