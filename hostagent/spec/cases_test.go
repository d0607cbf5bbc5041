package spec_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// TestCase005_CRLF: line ends reach the guest as they are, and a script with
// Windows ones has a warning.
func TestCase005_CRLF(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/sh\r\necho\r\n"
	for name, tt := range map[string]struct {
		text string
		file string
	}{
		"a file":                     {"user_data_file = 'f'", script},
		"a string in a spec of CRLF": {"user_data = '''\r\n" + script + "'''\r\n", ""},
	} {
		s, err := decodeWith(tt.text, []byte(tt.file))
		if err != nil {
			t.Fatal(err)
		}
		if string(s.UserData) != script {
			t.Errorf("%s: user-data %q; want %q", name, string(s.UserData), script)
		}
		if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "CRLF") {
			t.Errorf("%s: warnings %q; want one on CRLF", name, w)
		}
	}
}

// TestCase007_Encoding: UTF-8 passes, Latin-1 passes with a warning; neither is
// transcoded.
func TestCase007_Encoding(t *testing.T) {
	t.Parallel()
	for text, warned := range map[string]bool{"#cloud-config\n# größe ✓ 日本\n": false, "#cloud-config\n# gr\xfc\xdfe\n": true} {
		s, err := decodeWith("user_data_file = 'f'\nvendor_data_file = 'f'", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if string(s.UserData) != text || string(s.VendorData) != text {
			t.Errorf("%q became %q and %q", text, string(s.UserData), string(s.VendorData))
		}
		if w := strings.Join(s.Warnings(), "\n"); strings.Contains(w, "user-data is not UTF-8") != warned || strings.Contains(w, "vendor-data is not UTF-8") != warned {
			t.Errorf("%q: warnings %q", text, w)
		}
	}
	if _, err := decodeWith("user_data = '\xfc'", nil); err == nil {
		t.Error("a spec that is not UTF-8 was accepted")
	}
}

// TestCase011_OneLayer: one layer of base64 is removed where the key says so,
// and nothing else.
func TestCase011_OneLayer(t *testing.T) {
	t.Parallel()
	once := base64.StdEncoding.EncodeToString(zipped(t, cloudConfig))
	twice := base64.StdEncoding.EncodeToString([]byte(once))
	for _, tt := range []struct{ toml, json, want string }{
		{"_base64 = '" + once + "'", `_base64": "` + once + `"`, string(zipped(t, cloudConfig))},
		{"_base64 = '" + twice + "'", `_base64": "` + twice + `"`, once},
		{" = '" + once + "'", `": "` + once + `"`, once},
	} {
		s, err := decodeWith("user_data"+tt.toml+"\nvendor_data"+tt.toml, nil)
		if err != nil {
			t.Fatal(err)
		}
		object, err := decodeJSON(minimalJSON + `, "user_data` + tt.json + `, "vendor_data` + tt.json + `}`)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []spec.Secret{s.UserData, s.VendorData, object.UserData, object.VendorData} {
			if string(got) != tt.want {
				t.Errorf("%.40s: %.40q; want %.40q", tt.toml, string(got), tt.want)
			}
		}
	}
	for _, broken := range []string{once[:len(once)-1], once[1:], once + "=", strings.ReplaceAll(once, once[:1], "*"), "-_-_"} {
		if _, err := decodeJSON(minimalJSON + `, "user_data_base64": "` + broken + `"}`); err == nil {
			t.Errorf("%.40q was accepted", broken)
		}
	}
}

// TestCase012_SizesAreWholeOrRefused: what is allowed is complete, one byte more
// is refused with the limit.
func TestCase012_SizesAreWholeOrRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2047, 2048, 2049, 1 << 20, 20 << 20} {
		data := []byte(strings.Repeat("x", n))
		s, err := decodeWith("user_data_file = 'f'", data)
		if err != nil || string(s.UserData) != string(data) {
			t.Errorf("%d bytes: %d bytes, error %v", n, len(s.UserData), err)
		}
	}
	for key, most := range map[string]int{"user_data": seed.MaxUserData, "vendor_data": seed.MaxVendorData, "network_config": seed.MaxNetworkConfig} {
		_, err := decodeWith(key+"_file = 'f'", []byte("a: "+strings.Repeat("x", most-2)))
		if err == nil || !strings.Contains(err.Error(), "bytes long; at most") {
			t.Errorf("%s of a byte too many: %v", key, err)
		}
	}
}

// TestCase025_NamesNeverBecomePaths: no name leaves the directory it is meant
// for, wherever it is given, in either form of document.
func TestCase025_NamesNeverBecomePaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a/b", "../../etc/cron.d/x", ".", "..", "-rf", "", "a\x00b", "a\nb", " a", "a "} {
		if _, err := spec.DecodeJSON(name, "m", []byte(minimalJSON+"}"), catalog()); err == nil {
			t.Errorf("proxy %q was accepted", name)
		}
		quoted := tomlString(name)
		for _, text := range []string{
			"image = " + quoted + "\nmachine_type = 'small'", "image = 'debian-13'\nmachine_type = " + quoted,
			minimal + "[[network]]\nnetwork = " + quoted, minimal + "[[network]]\nbridge = " + quoted, minimal + "[[network]]\ndirect = " + quoted,
			minimal + "[probe]\ntype = 'http'\nurl = 'http://x/'\ncredentials = " + quoted,
			minimal + "[vars]\n" + quoted + " = 'x'",
		} {
			cat := catalog()
			cat.Credentials[name], cat.Images[name], cat.MachineTypes[name] = "/x", debian13, spec.MachineType{CPUs: 1, Memory: spec.GiB}
			if _, err := decode(text, cat); err == nil {
				t.Errorf("accepted: %s", text)
			}
		}
	}
}

// TestCase027_NameLengths: a name is refused while the socket's path that it
// becomes part of would still fit: 108 bytes with its final NUL.
func TestCase027_NameLengths(t *testing.T) {
	t.Parallel()
	const socket = "/var/lib/libvirt/qemu/channel/target/domain-99999-" // and at most 20 bytes of the name, by libvirt
	for n, ok := range map[int]bool{0: false, 1: true, 32: true, 63: true, 64: false, 128: false, 300: false} {
		name := strings.Repeat("n", n)
		if err := spec.CheckName(spec.KindProxy, name); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
		if path := socket + name[:min(n, 20)] + "/org.qemu.guest_agent.0"; ok && len(path) > 107 {
			t.Errorf("%d bytes: a socket's path of %d", n, len(path))
		}
		if ok && len(spec.Hostname(name)) > 63 {
			t.Errorf("%d bytes: host name %s", n, spec.Hostname(name))
		}
	}
}

// TestCase029_FileNameIsNoName: the document's own name is for people alone.
func TestCase029_FileNameIsNoName(t *testing.T) {
	t.Parallel()
	a, err := spec.DecodeTOML("p1", "my proxy (1).toml", []byte(minimal), catalog(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := spec.DecodeTOML("p1", "p1.toml", []byte(minimal), catalog(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b, compareAddresses); diff != "" {
		t.Errorf("another file name makes another spec:\n%s", diff)
	}
	if _, err := spec.DecodeTOML("my proxy (1)", "p1.toml", []byte(minimal), catalog(), nil); err == nil {
		t.Error("a name with blanks was accepted")
	}
}

// TestCase031_HostNames: every name that is allowed has a host name that is
// one, and no two the same.
func TestCase031_HostNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"edge_1", "edge-1", "EDGE1", "edge1", "Edge1", "edge.example.test", "1edge", "edge-", "edge", "edge_", "10.0.0.1", "4913", "edge-1-xa2145e"} {
		s, err := spec.DecodeTOML(name, "p.toml", []byte(minimal), catalog(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := s.SeedInput("i-0123456789abcdef", nil)
		if err := in.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		folded := strings.ToLower(in.Hostname)
		if other, twice := seen[folded]; twice {
			t.Errorf("%s and %s have the host name %s", name, other, folded)
		}
		seen[folded] = name
	}
}

// TestCase032_MisspeltKeys: each is refused with key and line.
func TestCase032_MisspeltKeys(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"memory-mib = 4096", "disk_gib = '20'", "vcpus = 2.0", "memory_mib = -1", "port = -1", "vlan = 1", "address = '192.0.2.1/24'", "Vars = {}", "vendordata = ''",
		"network_config_base_64 = ''", "[netwrok]", "[Probe]", "[[networks]]", "[[network]]\nnetwork = 'a'\nVLAN = 7", "[[network]]\nnetwork = 'a'\nmac = 'x'", "[probe]\ncredential = 'x'", "[probe]\ntargets = []",
	} {
		_, err := decode(minimal+line, catalog())
		problems, _ := errors.AsType[spec.Problems](err)
		if len(problems) == 0 || problems[0].Line < 3 || problems[0].Key == "" {
			t.Errorf("%s: problems %v; want one with key and line", line, problems)
		}
	}
	if _, err := decode(minimal+"port = 9223372036854775808", catalog()); err == nil {
		t.Error("2^63 was accepted")
	}
	for _, member := range []string{`"memory-mib": 4096`, `"vcpus": 2`, `"Cpus": 2`, `"cpus": 2.0`, `"port": -1`, `"port": 9223372036854775808`, `"networks": []`, `"network": [{"network": "a", "Vlan": 7}]`} {
		if _, err := decodeJSON(minimalJSON + ", " + member + "}"); err == nil {
			t.Errorf("%s was accepted", member)
		}
	}
}

// TestCase033_DuplicateKeys: a key twice is no document, at any depth, in either
// form.
func TestCase033_DuplicateKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"disk = '1GiB'\ndisk = '2GiB'", "[vars]\na = ''\na = ''", "[[network]]\nbridge = 'a'\nbridge = 'b'", "[probe]\n[probe]",
	} {
		_, err := decode(minimal+text, catalog())
		if problems, ok := errors.AsType[spec.Problems](err); !ok || len(problems) != 1 || problems[0].Line < 4 {
			t.Errorf("%s: %v; want one problem, with its line", text, err)
		}
	}
	for _, member := range []string{`"disk": "1GiB", "disk": "1GiB"`, `"vars": {"a": "", "\u0061": ""}`, `"network": [{"bridge": "a", "bridge": "b"}]`} {
		_, err := decodeJSON(minimalJSON + ", " + member + "}")
		if problems, ok := errors.AsType[spec.Problems](err); !ok || len(problems) != 1 || problems[0].Key == "" {
			t.Errorf("%s: %v; want one problem, with its key", member, err)
		}
	}
}

// TestCase069_SizesOfDisks: 0GiB is the image's own size and nothing negative or
// fractional is a size; that a disk is not below its image's is known only when
// the image is there.
func TestCase069_SizesOfDisks(t *testing.T) {
	t.Parallel()
	for size, ok := range map[string]bool{"0GiB": true, "1GiB": true, "16TiB": true, "-1GiB": false, "0.5GiB": false, "1023MiB": false, "17TiB": false, "10G": false} {
		if _, err := decode(minimal+"disk = '"+size+"'", catalog()); (err == nil) != ok {
			t.Errorf("%s: %v", size, err)
		}
	}
}
