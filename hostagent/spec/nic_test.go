package spec_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func addresses(text ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range text {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func TestNICs(t *testing.T) {
	t.Parallel()
	const text = minimal + `
[[network]]
bridge = 'br0'
vlan = 4094
isolated = true
clean_traffic = true
address = ['192.0.2.10/24', '2001:db8::10/64']
gateway = ['192.0.2.1', 'fe80::1']
dns = '127.0.0.53'
inbound = '100Mbit/s'
outbound = '8kbit/s'
[[network]]
direct = 'eth1.7'
isolated = false
clean_traffic = false
[[network]]
network = 'lan'
address = '198.51.100.0/31'
`
	s, err := decode(text, catalog())
	if err != nil {
		t.Fatal(err)
	}
	want := []spec.NIC{
		{
			Network: spec.Network{Bridge: "br0"}, VLAN: 4094, Isolated: true, CleanTraffic: true, Inbound: 12500000, Outbound: 1000,
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24"), netip.MustParsePrefix("2001:db8::10/64")},
			Gateways:  addresses("192.0.2.1", "fe80::1"), DNS: addresses("127.0.0.53"),
		},
		{Network: spec.Network{Direct: "eth1.7"}},
		{Network: spec.Network{Network: "lan"}, Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/31")}},
	}
	if diff := cmp.Diff(want, s.Networks, compareAddresses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in := s.SeedInput("i-0123456789abcdef", func(n int) string { return fmt.Sprint(n) })
	if len(in.NICs) != 3 || in.NICs[0].Gateways[1] != netip.MustParseAddr("fe80::1") || in.NICs[2].MAC != "2" {
		t.Errorf("the seed gets %d NICs: %v", len(in.NICs), in.NICs)
	}
	_, err = decode(text+"gateway = '198.51.100.1'\n", catalog())
	problem := "p1.toml:21:1: network[2].gateway: is the second for IPv4 in this spec; a guest has one default route"
	if diff := cmp.Diff(problem, fmt.Sprint(err)); diff != "" {
		t.Errorf("a second default route (-want +got):\n%s", diff)
	}
}

// TestNICProblems: each is one problem, at its key.
func TestNICProblems(t *testing.T) {
	t.Parallel()
	const nic, static = "network = 'a'\n", "address = '192.0.2.10/24'\n"
	for _, tt := range []struct{ text, want string }{
		{"network = 'a'\ndirect = 'eth0'", "direct: is given beside network; give one of them"},
		{"bridge = 'a'\ndirect = 'eth0'", "direct: is given beside bridge; give one of them"},
		{"direct = 'a23456789012345b'", "direct: interface name \"a23456789012345b\" is 16 bytes long"},
		{"direct = 'eth0'\nisolated = true", "isolated: can not be had with direct: the host's bridge isolates its ports, and there is none; give network or bridge instead"},
		{"direct = 'eth0'\nclean_traffic = true", "clean_traffic: can not be had with direct"},
		{"direct = 'eth0'\nvlan = 7", "vlan: can not be had with direct: libvirt tags nothing on a macvtap"},
		{nic + "vlan = 0", "vlan: 0 is out of bounds; want an integer from 1 to 4094"},
		{nic + "vlan = 4095", "vlan: 4095 is out of bounds"},
		{nic + "isolated = 'yes'", "isolated: is a string; want true or false"},
		{nic + "inbound = 100", "inbound: is an integer; want a string"},
		{nic + "outbound = '100MB/s'", "outbound: \"100MB/s\" is no bandwidth"},
		{nic + "address = '192.0.2.10'", "address: \"192.0.2.10\" is no address in a network"},
		{nic + "address = '192.0.2.010/24'", "address: \"192.0.2.010/24\" is no address in a network"},
		{nic + "address = '192.0.2.0/24'", "address: \"192.0.2.0/24\" is the network's own address"},
		{nic + "address = '192.0.2.255/24'", "address: \"192.0.2.255/24\" is the network's broadcast address"},
		{nic + "address = '192.0.3.255/22'", "address: \"192.0.3.255/22\" is the network's broadcast address"},
		{nic + "address = '192.0.2.3/30'", "address: \"192.0.2.3/30\" is the network's broadcast address"},
		{nic + "address = '10.255.255.255/8'", "address: \"10.255.255.255/8\" is the network's broadcast address"},
		{nic + "address = '10.0.0.1/0'", "address: \"10.0.0.1/0\" makes the whole Internet one network"},
		{nic + "address = '0.0.0.0/32'", "address: \"0.0.0.0/32\" is the unspecified address"},
		{nic + "address = '127.0.0.2/8'", "address: \"127.0.0.2/8\" is a loopback address"},
		{nic + "address = '224.0.0.1/24'", "address: \"224.0.0.1/24\" is a multicast address"},
		{nic + "address = 'ff02::1/64'", "address: \"ff02::1/64\" is a multicast address"},
		{nic + "address = '2001:db8::/64'", "address: \"2001:db8::/64\" is the address that every router"},
		{nic + "address = '::ffff:192.0.2.1/120'", "address: \"::ffff:192.0.2.1/120\" is an IPv4 address written as IPv6"},
		{nic + "address = 'fe80::1%eth0/64'", "address: \"fe80::1%eth0/64\" is no address"},
		{nic + "address = 1", "address: is an integer; want an array of at most 8 strings"},
		{nic + "address = ['192.0.2.10/24', 'x']", "address[1]: \"x\" is no address"},
		{nic + "address = [" + strings.Repeat("'192.0.2.1/24',", 9) + "]", "address: is an array of 9; want an array of at most 8 strings"},
		{nic + "address = ['192.0.2.10/24', '192.0.2.10/25']", "address: 192.0.2.10 is given twice in this spec"},
		{nic + static + "[[network]]\nnetwork = 'b'\naddress = '192.0.2.10/32'", "address: 192.0.2.10 is given twice in this spec"},
		{nic + "gateway = '192.0.2.1'", "gateway: means nothing without address: DHCP gives it"},
		{nic + "dns = '192.0.2.1'", "dns: means nothing without address: DHCP gives it"},
		{nic + static + "gateway = '192.0.3.1'", "gateway: 192.0.3.1 is in none of this network's prefixes"},
		{nic + static + "gateway = '192.0.2.10'", "gateway: 192.0.2.10 is the guest's own address"},
		{nic + static + "gateway = '192.0.2.255'", "gateway: 192.0.2.255 is the network's broadcast address"},
		{nic + static + "gateway = '192.0.2.0'", "gateway: 192.0.2.0 is the network's own address"},
		{nic + static + "gateway = '2001:db8::1'", "gateway: 2001:db8::1 needs an address of its family"},
		{nic + static + "gateway = 'fe80::1'", "gateway: fe80::1 needs an address of its family"},
		{nic + static + "gateway = ['192.0.2.1', '192.0.2.2']", "gateway: has two of one family"},
		{nic + static + "gateway = '192.0.2.1/24'", "gateway: \"192.0.2.1/24\" is no IP address"},
		{nic + "address = 'fe80::2/64'\ngateway = 'fe80::1%eth0'", "gateway: fe80::1%eth0 has a zone"},
		{nic + "address = '2001:db8::2/64'\ngateway = '2001:db8:0:1::1'", "gateway: 2001:db8:0:1::1 is in none"},
		{nic + static + "dns = '0.0.0.0'", "dns: 0.0.0.0 is the unspecified address"},
		{nic + static + "dns = 'resolver.example'", "dns: \"resolver.example\" is no IP address"},
		{nic + static + "dns = '2001:db8::53'", "dns: 2001:db8::53 needs an address of its family"},
		{nic + static + "dns = [" + strings.Repeat("'192.0.2.53',", 9) + "]", "dns: is an array of 9"},
	} {
		_, err := decode(minimal+"[[network]]\n"+tt.text, catalog())
		problems, _ := errors.AsType[spec.Problems](err)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), "network["+fmt.Sprint(strings.Count(tt.text, "[["))+"]."+tt.want) {
			t.Errorf("%s\nproblems %v\nwant one: %s", tt.text, problems, tt.want)
		}
	}
}

func TestGatewayOfAnIPv6Network(t *testing.T) {
	t.Parallel()
	for _, gateway := range []string{"2001:db8::1", "2001:db8::", "fe80::1"} {
		if _, err := decode(minimal+"[[network]]\nbridge = 'b'\naddress = '2001:db8::2/64'\ngateway = '"+gateway+"'", catalog()); err != nil {
			t.Error(err)
		}
	}
}

func TestAddressBesideNetworkConfig(t *testing.T) {
	t.Parallel()
	const nic = "[[network]]\nnetwork = 'a'\naddress = '192.0.2.10/24'\n"
	_, err := decode(minimal+"network_config = 'version: 2'\n"+nic, catalog())
	want := "p1.toml:3:1: network_config: is given beside the address of a network, of which a network-config is made; give one of them"
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := decode(minimal+"network_config = ''\n"+nic, catalog()); err != nil {
		t.Errorf("an empty one is none: %v", err)
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]spec.Rate{
		"8kbit/s": 1000, "1000Gbit/s": spec.MaxRate, "100Mbit/s": 12500000, "16kbit/s": 2000, "1Mbit/s": 125000, "1Gbit/s": 125000000, "1000000kbit/s": 125000000,
	} {
		got, err := spec.ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, int64(got), err, int64(want))
		}
		if again, err := spec.ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s, which is %d, %v", text, got, int64(again), err)
		}
	}
	for _, text := range []string{
		"", "0kbit/s", "7kbit/s", "9kbit/s", "1001Gbit/s", "99999999999999999999Gbit/s", "9223372036854775807kbit/s", "100", "Mbit/s", "-8kbit/s", "+8kbit/s", "1.5Mbit/s",
		"100 Mbit/s", "100mbit/s", "100Mbps", "100MB/s", "100Mibit/s", " 8kbit/s", "8kbit/s ", "8bit/s", strings.Repeat("9", 10000),
	} {
		if got, err := spec.ParseRate(text); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.100q: %v, error %v", text, got, err)
		}
	}
	for rate, want := range map[spec.Rate]string{0: "0kbit/s", 125: "1kbit/s", 1: "8bit/s", 187500: "1500kbit/s"} {
		if got := rate.String(); got != want {
			t.Errorf("%d is %q; want %q", int64(rate), got, want)
		}
	}
}
