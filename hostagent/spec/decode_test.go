package spec_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

var (
	debian13 = spec.Image{Key: "debian-13", Source: "/images/debian-13.qcow2", SHA256: strings.Repeat("13", 32), Format: "qcow2"}
	debian12 = spec.Image{Key: "debian-12", Source: "https://images.example/12.raw", SHA256: strings.Repeat("12", 32), Format: "raw"}
)

var compareAddresses = cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})

// catalog is what the tests' config offers. It has no defaults.
func catalog() spec.Catalog {
	return spec.Catalog{
		Images: map[string]spec.Image{"debian-12": debian12, "debian-13": debian13},
		MachineTypes: map[string]spec.MachineType{
			"small": {CPUs: 1, Memory: 512 * spec.MiB},
			"large": {CPUs: 8, Memory: 16 * spec.GiB},
		},
		Credentials: map[string]string{"probe": "/etc/probe.credentials"},
	}
}

func decode(text string, cat spec.Catalog) (spec.Spec, error) {
	return spec.DecodeTOML("p1", "p1.toml", []byte(text), cat, func(rel string) ([]byte, error) {
		if rel != "squid.yaml" {
			return nil, errors.New("open " + rel + ": no such file")
		}
		return []byte("#cloud-config\n"), nil
	})
}

const minimal = "image = 'debian-13'\nmachine_type = 'small'\n"

func TestDecodeTOML(t *testing.T) {
	t.Parallel()
	base := spec.Spec{
		Name: "p1", Image: debian13, MachineType: "small", CPUs: 1, Memory: 512 * spec.MiB, Port: 3128, GuestAgent: true,
		Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}}, Probe: spec.Probe{Type: "tcp"},
	}
	with := func(change func(*spec.Spec)) spec.Spec {
		s := base
		change(&s)
		return s
	}
	defaults := catalog()
	defaults.Defaults = spec.Defaults{Image: "debian-12", MachineType: "large", Disk: 20 * spec.GiB, Port: 8080, Network: spec.Network{Bridge: "br9"}}
	fromDefaults := spec.Spec{
		Name: "p1", Image: debian12, MachineType: "large", CPUs: 8, Memory: 16 * spec.GiB, Disk: 20 * spec.GiB, Port: 8080, GuestAgent: true,
		Networks: []spec.NIC{{Network: spec.Network{Bridge: "br9"}}}, Probe: spec.Probe{Type: "tcp"},
	}
	tests := []struct {
		name, text string
		cat        spec.Catalog
		want       spec.Spec
	}{
		{"minimal", minimal, catalog(), base},
		{"empty, all from defaults", "", defaults, fromDefaults},
		{"cpus and memory instead of the default machine type", "cpus = 2\nmemory = '1536MiB'", defaults, func() spec.Spec {
			s := fromDefaults
			s.MachineType, s.CPUs, s.Memory = "", 2, 1536*spec.MiB
			return s
		}()},
		{"everything over defaults", `
image = "debian-13"
machine_type = "small"
disk = "10GiB"
port = 3129
user_data_file = "squid.yaml"
install_guest_agent = false
on_change = "hold"
power = "off"
drain = "20s"
skip_cleanup = true
[labels]
region = "eu"
[[network]]
bridge = "br0"
[[network]]
network = "lan"
[probe]
type = "http"
url = "http://connectivity.example/generate_204"
expect_status = 200
`, defaults, with(func(s *spec.Spec) {
			s.Disk, s.Port, s.GuestAgent = 10*spec.GiB, 3129, false
			s.UserData = spec.Secret("#cloud-config\n")
			s.Labels = map[string]string{"region": "eu"}
			s.Networks = []spec.NIC{{Network: spec.Network{Bridge: "br0"}}, {Network: spec.Network{Network: "lan"}}}
			s.Hold, s.Off, s.Drain, s.SkipCleanup = true, true, 20*time.Second, true
			s.Probe = spec.Probe{Type: "http", URL: "http://connectivity.example/generate_204", ExpectStatus: 200}
		})},
		{"http probe expects 204", minimal + "[probe]\ntype = 'http'\nurl = 'http://c.example:8080/x?y=1'", catalog(), with(func(s *spec.Spec) {
			s.Probe = spec.Probe{Type: "http", URL: "http://c.example:8080/x?y=1", ExpectStatus: 204}
		})},
		{"what happens anyway, said", minimal + "on_change = 'apply'\npower = 'on'\ndrain = '0s'\nskip_cleanup = false", catalog(), base},
		{"the longest drain", minimal + "drain = '60m'", catalog(), with(func(s *spec.Spec) { s.Drain = time.Hour })},
		{"disk of the image in spite of a default", minimal + "disk = '0GiB'\n[[network]]\nnetwork = 'default'\n", defaults, with(func(s *spec.Spec) {
			s.Port = 8080
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(tt.text, tt.cat)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Own = got.Own // has tests of its own
			if diff := cmp.Diff(tt.want, got, compareAddresses); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if string(tt.want.UserData) != string(got.UserData) {
				t.Errorf("user-data = %q; want %q", string(got.UserData), string(tt.want.UserData))
			}
		})
	}
}

func TestDecodeProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string // each a whole line
	}{
		{"empty", "", []string{
			`p1.toml:1:1: image: is missing and the config has no default; known: debian-12, debian-13`,
			`p1.toml:1:1: machine_type: is missing and the config has no default; give machine_type, or cpus and memory; known: large, small`}},
		{"unknown references", "image = 'debian-14'\nmachine_type = 'xl'", []string{
			`p1.toml:1:1: image: there is no image "debian-14"; did you mean "debian-12"? known: debian-12, debian-13`,
			`p1.toml:2:1: machine_type: there is no machine type "xl"; known: large, small`}},
		{"misspelt keys", minimal + "memory-mib = 4096\ndisk_gib = '20'\nMemory = 1\nname = 'p1'\n[netwrok]\n", []string{
			`p1.toml:3:1: memory-mib: unknown key; did you mean "memory"?`,
			`p1.toml:4:1: disk_gib: unknown key; did you mean "disk"?`,
			`p1.toml:5:1: Memory: unknown key; did you mean "memory"?`,
			`p1.toml:6:1: name: unknown key; the file's stem is the proxy's name`,
			`p1.toml:7:2: netwrok: unknown key; did you mean "network"?`}},
		{"numbers are not coerced", "image = 'debian-13'\ncpus = 2.0\nmemory = -1\ndisk = '20'\nport = '3128'", []string{
			`p1.toml:2:1: cpus: is a float; want an integer from 1 to 64`,
			`p1.toml:3:1: memory: is an integer; want a string`,
			`p1.toml:4:1: disk: "20" is not a size; it has no unit; want "20MiB" or "20GiB", say`,
			`p1.toml:5:1: port: is a string; want an integer from 1 to 65535`}},
		{"bounds", "image = 'debian-13'\ncpus = 65\nmemory = '64MiB'\ndisk = '512MiB'\nport = 0\n[probe]\ntype = 'http'\nurl = 'http://x/'\nexpect_status = 600", []string{
			`p1.toml:2:1: cpus: 65 is out of bounds; want an integer from 1 to 64`,
			`p1.toml:3:1: memory: 64MiB is out of bounds; want 128MiB to 1TiB`,
			`p1.toml:4:1: disk: 512MiB is out of bounds; want 1GiB to 16TiB, or "0GiB" for the base image's own size`,
			`p1.toml:5:1: port: 0 is out of bounds; want an integer from 1 to 65535`,
			`p1.toml:9:1: probe.expect_status: 600 is out of bounds; want an integer from 100 to 599`}},
		{"memory in parts of a MiB", "image = 'debian-13'\ncpus = 1\nmemory = '1048577KiB'", []string{
			`p1.toml:3:1: memory: 1048577KiB is not a whole number of MiB`}},
		{"machine twice", minimal + "cpus = 2", []string{
			`p1.toml:2:1: machine_type: is given beside cpus or memory; give machine_type, or cpus and memory`}},
		{"half a machine", "image = 'debian-13'\ncpus = 2", []string{
			`p1.toml:1:1: has only one of cpus and memory; give machine_type, or cpus and memory`}},
		{"user-data twice", minimal + "user_data = 'x'\nuser_data_base64 = 'eA=='\nuser_data_file = 'squid.yaml'", []string{
			`p1.toml:4:1: user_data_base64: is given beside user_data; give at most one of user_data, user_data_file, user_data_base64`,
			`p1.toml:5:1: user_data_file: is given beside user_data; give at most one of user_data, user_data_file, user_data_base64`}},
		{"user_data_base64", minimal + "user_data_base64 = 'eA=x'", []string{
			`p1.toml:3:1: user_data_base64: is not base64: it breaks at character 3 of 4; want the standard alphabet, padded with "="`}},
		{"user_data_file absent", minimal + "user_data_file = 'a/b.yaml'", []string{
			`p1.toml:3:1: user_data_file: open a/b.yaml: no such file`}},
		{"networks", minimal + "[[network]]\n[[network]]\nnetwork = 'a'\nbridge = 'b'\n[[network]]\nbridge = 'a23456789012345b'\n[[network]]\nmac = 'x'", []string{
			`p1.toml:3:3: network[0]: names nothing to connect to; give network, bridge or direct`,
			`p1.toml:6:1: network[1].bridge: is given beside network; give one of them`,
			`p1.toml:8:1: network[2].bridge: bridge name "a23456789012345b" is 16 bytes long: no network interface can be called that; at most 15 are allowed`,
			`p1.toml:9:3: network[3]: names nothing to connect to; give network, bridge or direct`,
			`p1.toml:10:1: network[3].mac: unknown key; allowed: address, bridge, clean_traffic, direct, dns, gateway, inbound, isolated, network, outbound, vlan`}},
		{"nine networks", minimal + strings.Repeat("[[network]]\nnetwork = 'a'\n", 9), []string{
			`p1.toml:3:3: network: has 9 elements; at most 8 are allowed`}},
		{"tcp probe with http's keys", minimal + "[probe]\nurl = 'http://x/'\nexpect_status = 200", []string{
			`p1.toml:4:1: probe.url: means nothing to a probe of type "tcp"; give type = "http", "connect" or "socks5" with it`,
			`p1.toml:5:1: probe.expect_status: means nothing to a probe of type "tcp"; give type = "http", "connect" or "socks5" with it`}},
		{"http probe without url", minimal + "[probe]\ntype = 'http'", []string{
			`p1.toml:3:2: probe.url: is missing; a probe of type "http" needs the URL to ask for through the proxy`}},
		{"no type of probe", minimal + "[probe]\ntype = 'icmp'\nurl = 'http://x/'", []string{
			`p1.toml:4:1: probe.type: "icmp" is no type of probe; want "tcp", "http", "connect" or "socks5"`}},
		{"labels", minimal + "[labels]\n\"a-b\" = 'x'\n1a = 'x'\n__a = 'x'\nok = 1\nnl = \"a\\nb\"", []string{
			`p1.toml:4:1: labels.a-b: is no label name; want letters, digits and "_", no digit first, not "__" first, at most 63 bytes`,
			`p1.toml:5:1: labels.1a: is no label name; want letters, digits and "_", no digit first, not "__" first, at most 63 bytes`,
			`p1.toml:6:1: labels.__a: is no label name; want letters, digits and "_", no digit first, not "__" first, at most 63 bytes`,
			`p1.toml:7:1: labels.ok: is an integer; want a string`,
			`p1.toml:8:1: labels.nl: has control characters; want text of one line`}},
		{"words", minimal + "on_change = 'Hold'\npower = 'standby'\nskip_cleanup = 'yes'\ndrain = '-1s'\n", []string{
			`p1.toml:3:1: on_change: "Hold" is not known; want "apply" or "hold"`,
			`p1.toml:4:1: power: "standby" is not known; want "on" or "off"`,
			`p1.toml:5:1: skip_cleanup: is a string; want true or false`,
			`p1.toml:6:1: drain: "-1s" is not a duration that is allowed; want a number with its unit, from "0s" to "1h0m0s"`}},
		{"words that are none, and a drain of no unit", minimal + "on_change = ''\npower = false\ndrain = 20\n", []string{
			`p1.toml:3:1: on_change: "" is not known; want "apply" or "hold"`,
			`p1.toml:4:1: power: is a boolean; want a string`,
			`p1.toml:5:1: drain: is an integer; want a string`}},
		{"too long a drain", minimal + "drain = '60m1s'\n", []string{
			`p1.toml:3:1: drain: "60m1s" is not a duration that is allowed; want a number with its unit, from "0s" to "1h0m0s"`}},
		{"duplicate key", minimal + "image = 'debian-12'", []string{
			`p1.toml:3:1: image: not TOML: Key … has already been defined.`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(tt.text, catalog())
			problems, ok := errors.AsType[spec.Problems](err)
			if !ok {
				t.Fatalf("decoded to %v, error %v; want Problems", got, err)
			}
			if diff := cmp.Diff(tt.want, problems.Lines()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(spec.Spec{}, got, compareAddresses); diff != "" {
				t.Errorf("a broken document gave a spec:\n%s", diff)
			}
		})
	}
}

func TestI15_LabelsAndFileAreBounded(t *testing.T) {
	t.Parallel()
	many := minimal + "[labels]\n"
	for i := range 33 {
		many += fmt.Sprintf("l%d = 'x'\n", i)
	}
	for name, text := range map[string]string{
		"33 labels":         many,
		"long label value":  minimal + "[labels]\na = '" + strings.Repeat("x", 257) + "'",
		"long label name":   minimal + "[labels]\n" + strings.Repeat("x", 64) + " = 'x'",
		"file over 1 MiB":   minimal + "user_data = '" + strings.Repeat("x", 1<<20) + "'",
		"long probe url":    minimal + "[probe]\ntype = 'http'\nurl = 'http://x/" + strings.Repeat("x", 2048) + "'",
		"long quoted value": minimal + "[probe]\ntype = '" + strings.Repeat("x", 10000) + "'",
	} {
		_, err := decode(text, catalog())
		if err == nil {
			t.Errorf("%s: was accepted", name)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestProbeURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"https://x.example/", "ftp://x/", "x.example", "http://", "http:///p", "http:x", "http://user:pw@x/", "http://x:0/",
		"http://x:99999/", "http://x:a/", "http://x/ y", "http://x/\ny", "", "://",
	} {
		_, err := decode(minimal+"[probe]\ntype = 'http'\nurl = "+fmt.Sprintf("%q", url), catalog())
		if err == nil {
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), "pw@") {
			t.Errorf("%q: the problem quotes the password: %v", url, err)
		}
	}
}

// FuzzDecodeTOML: no document panics, each problem is at a place inside the
// document, and what is accepted decodes again to the same hash.
func FuzzDecodeTOML(f *testing.F) {
	for _, s := range []string{
		"", minimal, minimal + "[[network]]\nbridge = 'br0'\n[probe]\ntype = 'http'\nurl = 'http://x/'", "image = 1", "user_data = '''\r\n#!\r\n'''\r\n",
		"cpus = 2\nmemory = '2GiB'\nimage = 'debian-12'\n[labels]\na = 'b'", "\"\\u0000\" = 1\n[[network]]\n\"é\" = {}", "network = [1]", "user_data_file = '../x'",
		"user_data_base64 = 'eA=='\nname = 'x'\ndisk = '9999999999TiB'",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decode(string(data), catalog())
		if err == nil {
			again, err := decode(string(data), catalog())
			if err != nil || again.Hash() != s.Hash() {
				t.Fatalf("decoded again: %v, hash %v then %v", err, s.Hash(), again.Hash())
			}
			if _, err := spec.Encode(s); err != nil {
				t.Fatalf("accepted, but can not be stored: %v", err)
			}
			return
		}
		lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
		for _, p := range err.(spec.Problems) {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
				t.Fatalf("place outside the document: %v", p)
			}
		}
	})
}
