package spec_test

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// digest gives Own and Hash of a document beside which squid.yaml holds
// "#cloud-config\n" and empty.yaml nothing.
func digest(t *testing.T, text string, cat spec.Catalog) (own string, hash spec.Hash) {
	t.Helper()
	s, err := spec.DecodeTOML("p1", "p1.toml", []byte(text), cat, func(rel string) ([]byte, error) {
		if rel == "empty.yaml" {
			return nil, nil
		}
		return []byte("#cloud-config\n"), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Own, s.Hash()
}

// defaulting is a catalog by which an empty document is a proxy.
func defaulting() spec.Catalog {
	cat := catalog()
	cat.Defaults = spec.Defaults{Image: "debian-13", MachineType: "small", Disk: 2 * spec.GiB, Network: spec.Network{Bridge: "br0"}}
	return cat
}

const whole = `image = "debian-13"
machine_type = "small"
disk = "2GiB"
user_data = "#cloud-config\n"
install_guest_agent = true
[[network]]
bridge = "br0"
[[network]]
network = "lan"
`

// everyKey has the keys that later releases added, all that are in Own.
const everyKey = `vendor_data = "#!/bin/sh\n"
user_data = ""
vars = {a = "b"}
[[network]]
direct = "eth1"
inbound = "100Mbit/s"
outbound = "8kbit/s"
address = ["192.0.2.10/24", "2001:db8::10/64"]
gateway = "192.0.2.1"
dns = "192.0.2.53"
[[network]]
bridge = "br0"
vlan = 7
isolated = true
clean_traffic = true
`

// TestI10_GoldenOwn pins digests that a release has given out: another would
// take changes by the config for changes by the specs.
func TestI10_GoldenOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "e3b0c44298fc1c149afbf4c8996fb924",
		whole:                         "e9de701315854a0f4dd2a94b306029db",
		"cpus = 2\nmemory = '1GiB'":   "1d34e1bcf8b0b91171c6e3663276e58f",
		"install_guest_agent = false": "f0f5fc3684ceb5bb5bdc6910dbd91267",
		everyKey:                      "902d8be73e100ea1f3552ccc74ca8596",
	} {
		if own, _ := digest(t, text, defaulting()); own != want {
			t.Errorf("own digest %s; want %s, of:\n%s", own, want, text)
		}
	}
}

func TestOwnIgnoresForm(t *testing.T) {
	t.Parallel()
	want, _ := digest(t, whole, catalog())
	first, nets, _ := strings.Cut(whole, "[[network]]")
	nets = "[[network]]" + nets
	lines := strings.SplitAfter(first, "\n")
	for name, text := range map[string]string{
		"touch":                     whole,
		"comment":                   "# a comment\n" + whole,
		"key order":                 lines[4] + lines[3] + lines[2] + lines[1] + lines[0] + nets,
		"line ends":                 strings.ReplaceAll(whole, "\n", "\r\n"),
		"other unit":                strings.Replace(whole, "2GiB", "2048MiB", 1),
		"user-data in base64":       strings.Replace(whole, lines[3], "user_data_base64 = 'I2Nsb3VkLWNvbmZpZwo='\n", 1),
		"user-data in a file":       strings.Replace(whole, lines[3], "user_data_file = 'squid.yaml'\n", 1),
		"user-data in other quotes": strings.Replace(whole, lines[3], "user_data = '''\n#cloud-config\n'''\n", 1),
		"labels":                    whole + "[labels]\nregion = 'eu'\n",
		"probe with credentials":    whole + "[probe]\ntype = 'connect'\ntarget = 'x:1'\ncredentials = 'probe'\n",
		"no variables":              whole + "[vars]\n",
		"what happens anyway":       strings.Replace(whole, "bridge = \"br0\"\n", "bridge = \"br0\"\nisolated = false\nclean_traffic = false\n", 1),
		"probe":                     whole + "[probe]\ntype = 'http'\nurl = 'http://c.example/'\n",
		"port":                      "port = 3129\n" + whole,
		"on_change":                 "on_change = 'hold'\n" + whole,
		"power":                     "power = 'off'\n" + whole,
		"drain":                     "drain = '20s'\n" + whole,
		"skip_cleanup":              "skip_cleanup = true\n" + whole,
	} {
		if got, _ := digest(t, text, catalog()); got != want {
			t.Errorf("%s: own digest %s; want %s", name, got, want)
		}
	}
}

// TestOwnTellsDocumentsApart: each of these says something else, even where
// the defaults make the same guest of it.
func TestOwnTellsDocumentsApart(t *testing.T) {
	t.Parallel()
	const nic, address = "[[network]]\nbridge = 'br7'\n", "address = '192.0.2.10/24'\n"
	seen := map[string]string{}
	for _, text := range []string{
		"", "image = 'debian-13'", "image = 'debian-12'", "machine_type = 'small'", "machine_type = 'large'",
		"cpus = 1\nmemory = '512MiB'", "cpus = 2\nmemory = '512MiB'", "cpus = 1\nmemory = '1GiB'",
		"disk = '0GiB'", "disk = '2GiB'", "disk = '3GiB'",
		"install_guest_agent = true", "install_guest_agent = false",
		"user_data = ''", "user_data = 'a'", "user_data = 'b'", "user_data_file = 'squid.yaml'",
		"[[network]]\nbridge = 'br0'", "[[network]]\nnetwork = 'br0'", "[[network]]\nbridge = 'br0'\n[[network]]\nbridge = 'br1'",
		"[[network]]\nbridge = 'br1'\n[[network]]\nbridge = 'br0'", whole,
		"vendor_data = ''", "vendor_data = 'a'", "network_config = ''", "network_config = 'a: b'", "[vars]\na = ''", "[vars]\na = 'b'", "[vars]\nb = ''", "[vars]\na = ''\nb = ''",
		"[[network]]\ndirect = 'br0'", nic, nic + "vlan = 1", nic + "vlan = 2", nic + "isolated = true", nic + "clean_traffic = true",
		nic + "inbound = '8kbit/s'", nic + "outbound = '8kbit/s'", nic + "inbound = '16kbit/s'", nic + address, nic + "address = '192.0.2.10/25'", nic + "address = ['192.0.2.10/24', '192.0.2.11/24']",
		nic + address + "gateway = '192.0.2.1'", nic + address + "dns = '192.0.2.1'", nic + address + "dns = ['192.0.2.1', '192.0.2.2']",
	} {
		own, _ := digest(t, text, defaulting())
		if other, twice := seen[own]; twice {
			t.Errorf("the same digest %s for %q and %q", own, other, text)
		}
		seen[own] = text
	}
	inline, _ := digest(t, "user_data = ''", defaulting())
	if file, _ := digest(t, "user_data_file = 'empty.yaml'", defaulting()); file != inline {
		t.Error("an empty file and an empty string have different digests")
	}
}

// TestI06_ConfigChangesHashButNotOwn: what the config changes under a document
// shows in Hash alone.
func TestI06_ConfigChangesHashButNotOwn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text   string
		change func(*spec.Catalog)
	}{
		"image behind the key": {"", func(c *spec.Catalog) {
			c.Images["debian-13"] = spec.Image{Key: "debian-13", Source: "/new", SHA256: strings.Repeat("ab", 32), Format: "qcow2"}
		}},
		"machine type behind the key": {"machine_type = 'small'", func(c *spec.Catalog) { c.MachineTypes["small"] = spec.MachineType{CPUs: 2, Memory: spec.GiB} }},
		"default image":               {"", func(c *spec.Catalog) { c.Defaults.Image = "debian-12" }},
		"default machine type":        {"", func(c *spec.Catalog) { c.Defaults.MachineType = "large" }},
		"default disk":                {"", func(c *spec.Catalog) { c.Defaults.Disk = 0 }},
		"default network":             {"", func(c *spec.Catalog) { c.Defaults.Network = spec.Network{} }},
	} {
		before, after := defaulting(), defaulting()
		tt.change(&after)
		own, hash := digest(t, tt.text, before)
		ownAfter, hashAfter := digest(t, tt.text, after)
		if own != ownAfter || hash == hashAfter {
			t.Errorf("%s: own digest %s then %s, hash %v then %v; want the hash to change and nothing else", name, own, ownAfter, hash, hashAfter)
		}
	}
}
