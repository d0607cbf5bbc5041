package seed

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// threeNICs have everything: both families, several addresses, DHCP between.
func threeNICs() []NIC {
	return []NIC{
		{MAC: "56:AA:00:00:00:01",
			Addresses: prefixes("192.0.2.10/24", "198.51.100.7/28", "2001:db8::10/64"),
			Gateways:  addrs("2001:db8::1", "198.51.100.1"),
			DNS:       addrs("192.0.2.53", "2001:db8::53")},
		{MAC: "56:aa:00:00:00:02"},
		{MAC: "56:aa:00:00:00:03", Addresses: prefixes("203.0.113.3/31"), DNS: addrs("9.9.9.9")},
	}
}

func TestNetworkConfigOfNICs(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", NICs: threeNICs()}
	want := `{
  "version": 1,
  "config": [
    {
      "type": "physical",
      "name": "eth0",
      "mac_address": "56:aa:00:00:00:01",
      "subnets": [
        {
          "type": "static",
          "address": "192.0.2.10/24"
        },
        {
          "type": "static",
          "address": "198.51.100.7/28",
          "gateway": "198.51.100.1",
          "dns_nameservers": [
            "192.0.2.53"
          ]
        },
        {
          "type": "static",
          "address": "2001:db8::10/64",
          "gateway": "2001:db8::1",
          "dns_nameservers": [
            "192.0.2.53",
            "2001:db8::53"
          ]
        }
      ]
    },
    {
      "type": "physical",
      "name": "eth1",
      "mac_address": "56:aa:00:00:00:02",
      "subnets": [
        {
          "type": "dhcp"
        }
      ]
    },
    {
      "type": "physical",
      "name": "eth2",
      "mac_address": "56:aa:00:00:00:03",
      "subnets": [
        {
          "type": "static",
          "address": "203.0.113.3/31",
          "dns_nameservers": [
            "9.9.9.9"
          ]
        }
      ]
    }
  ]
}
`
	got := mustInspect(t, mustBuild(t, in)).Files[NetworkConfigFile]
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("network-config (-want +got):\n%s", diff)
	}
	if problem := mappingProblem(got); problem != "" {
		t.Errorf("the generated network-config %s", problem)
	}
}

// The network-config is made from the MACs that the domain gets, whatever they
// are, and only from those.
func TestCase023_NetworkConfigMatchesTheMACsGiven(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", NICs: threeNICs()}
	in.NICs[1].MAC = "52:54:00:FF:00:99"
	var got networkV1
	if err := json.Unmarshal(in.networkConfig(), &got); err != nil {
		t.Fatal(err)
	}
	macs := map[string]string{}
	for _, nic := range got.Config {
		macs[nic.Name] = nic.MAC
	}
	want := map[string]string{"eth0": "56:aa:00:00:00:01", "eth1": "52:54:00:ff:00:99", "eth2": "56:aa:00:00:00:03"}
	if diff := cmp.Diff(want, macs); diff != "" {
		t.Errorf("MACs (-want +got):\n%s", diff)
	}
	if first := mustBuild(t, in); !bytes.Equal(first.Bytes, mustBuild(t, in).Bytes) {
		t.Error("two builds differ")
	}
}

func TestNICsAreValidated(t *testing.T) {
	t.Parallel()
	change := func(f func(*NIC)) []NIC {
		nics := threeNICs()
		f(&nics[0])
		return nics
	}
	address := func(text string) []NIC {
		return []NIC{{MAC: "56:00:00:00:00:01", Addresses: prefixes(text)}}
	}
	for _, test := range []struct {
		name string
		nics []NIC
		want string // a part of the only problem; "" for none
	}{
		{"three", threeNICs(), ""},
		{"DHCP only", []NIC{{MAC: "56:00:00:00:00:01"}}, ""},
		{"link-local gateway", change(func(n *NIC) { n.Gateways[0] = netip.MustParseAddr("fe80::1") }), ""},
		{"single address", address("192.0.2.1/32"), ""},
		{"first of two", address("192.0.2.0/31"), ""},
		{"no MAC", change(func(n *NIC) { n.MAC = "" }), "MAC"},
		{"MAC with hyphens", change(func(n *NIC) { n.MAC = "56-aa-00-00-00-01" }), "MAC"},
		{"MAC too long", change(func(n *NIC) { n.MAC += ":00" }), "MAC"},
		{"MAC with line end", change(func(n *NIC) { n.MAC += "\n" }), "MAC"},
		{"multicast MAC", change(func(n *NIC) { n.MAC = "57:aa:00:00:00:01" }), "single interface"},
		{"MAC of zeros", change(func(n *NIC) { n.MAC = "00:00:00:00:00:00" }), "single interface"},
		{"MAC twice", change(func(n *NIC) { n.MAC = "56:AA:00:00:00:02" }), "eth1: the MAC"},
		{"address twice", change(func(n *NIC) { n.Addresses[1] = n.Addresses[0]; n.Gateways = nil }), "192.0.2.10 is at eth0 already"},
		{"address of nothing", []NIC{{MAC: "56:00:00:00:00:01", Addresses: make([]netip.Prefix, 1)}}, "missing"},
		{"no length", address("192.0.2.1/0"), "whole Internet"},
		{"network", address("192.0.2.0/24"), "network's own address"},
		{"first of an IPv6 network", address("2001:db8::/64"), "every router"},
		{"first of two of IPv6", address("2001:db8::/127"), ""},
		{"broadcast", address("192.0.2.255/24"), "broadcast"},
		{"all ones", address("255.255.255.255/32"), "broadcast"},
		{"loopback", address("127.0.0.1/8"), "loopback"},
		{"multicast", address("ff02::1/64"), "multicast"},
		{"mapped", address("::ffff:192.0.2.1/120"), "IPv4 address written as IPv6"},
		{"gateway elsewhere", change(func(n *NIC) { n.Gateways = addrs("192.0.3.1") }), "network-config of your own"},
		{"gateway is the guest", change(func(n *NIC) { n.Gateways = addrs("192.0.2.10") }), "own address"},
		{"gateway is none", change(func(n *NIC) { n.Gateways = make([]netip.Addr, 1) }), "is missing"},
		{"gateway with zone", change(func(n *NIC) { n.Gateways = addrs("fe80::1%eth0") }), "zone"},
		{"gateway without address", []NIC{{MAC: "56:00:00:00:00:01", Gateways: addrs("192.0.2.1")}}, "address of its family"},
		{"two gateways of a family", change(func(n *NIC) { n.Gateways = addrs("192.0.2.1", "198.51.100.1") }), "gateway of 198.51.100.1's family is at eth0"},
		{"gateway at two NICs", func() []NIC {
			nics := threeNICs()
			nics[2].Gateways = addrs("203.0.113.2")
			return nics
		}(), "eth2: a gateway of 203.0.113.2's family is at eth0"},
		{"gateway is the network", change(func(n *NIC) { n.Gateways = addrs("192.0.2.0") }), "network's own address"},
		{"name server is none", change(func(n *NIC) { n.DNS = addrs("::") }), "unspecified"},
		{"name server of the guest's own", change(func(n *NIC) { n.DNS = addrs("127.0.0.53") }), ""},
		{"name server with zone", change(func(n *NIC) { n.DNS = addrs("fe80::53%2") }), "zone"},
		{"name server of another family", address6DNS(), "address of its family"},
		{"name server with DHCP", []NIC{{MAC: "56:00:00:00:00:01", DNS: addrs("9.9.9.9")}}, "address of its family"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := Input{InstanceID: "i", NICs: test.nics}.Validate()
			if (err == nil) != (test.want == "") {
				t.Fatalf("%v, want %q", err, test.want)
			}
			if err == nil {
				return
			}
			if diff := cmp.Diff([]string{NetworkConfigFile}, fields(err)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want it to say %q", err, test.want)
			}
		})
	}
}

// address6DNS has an IPv6 name server and only an IPv4 address.
func address6DNS() []NIC {
	return []NIC{{MAC: "56:00:00:00:00:01", Addresses: prefixes("192.0.2.1/24"), DNS: addrs("2001:db8::53")}}
}

func TestNICsAndNetworkConfigTogetherAreRefused(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", NICs: threeNICs(), NetworkConfig: []byte("version: 2\n")}
	if diff := cmp.Diff([]string{NetworkConfigFile}, fields(in.Validate())); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// An address of the gateways' network comes second: still the gateway stands
// once, where it is reached.
func TestGatewayStandsOnce(t *testing.T) {
	t.Parallel()
	nic := NIC{Addresses: prefixes("192.0.2.10/24", "192.0.2.11/24", "2001:db8::1/64", "2001:db8::2/64"),
		Gateways: addrs("192.0.2.1", "fe80::1")}
	var got []string
	for _, s := range nic.subnets() {
		got = append(got, s.Gateway)
	}
	if diff := cmp.Diff([]string{"192.0.2.1", "", "fe80::1", ""}, got); diff != "" {
		t.Errorf("gateways by address (-want +got):\n%s", diff)
	}
}
