package spec

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// networks reads the [[network]] tables.
func networks(t *doc.Table) []NIC {
	var out []NIC
	var seen nicUses
	for _, n := range t.Tables("network", MaxNetworks) {
		nic, ok := decodeNIC(n)
		if !ok && !slices.ContainsFunc(attachKeys, n.Has) {
			n.Fail("", "names nothing to connect to; give network, bridge or direct")
		}
		checkAddresses(n, nic)
		seen.check(n, nic)
		if ok {
			out = append(out, nic)
		}
	}
	return out
}

// attachKeys are the keys of which one says what a NIC is attached to.
var attachKeys = []string{"network", "bridge", "direct"}

// DecodeNetwork reads the keys network, bridge and direct of a table, which may
// hold one of them. It gives ok = false when it holds none, or what it
// reported.
func DecodeNetwork(t *doc.Table) (n Network, ok bool) {
	network, isNetwork := doc.Text(t, "network", named(KindNetwork))
	bridge, isBridge := doc.Text(t, "bridge", named(KindBridge))
	direct, isDirect := doc.Text(t, "direct", named(KindInterface))
	first := ""
	for _, key := range attachKeys {
		switch {
		case !t.Has(key):
		case first == "":
			first = key
		default:
			t.Fail(key, "is given beside %s; give one of them", first)
			return Network{}, false
		}
	}
	return Network{Network: network, Bridge: bridge, Direct: direct}, isNetwork || isBridge || isDirect
}

// decodeNIC reads a [[network]] table. How addresses, gateways and name servers
// fit together is checkAddresses's.
func decodeNIC(t *doc.Table) (NIC, bool) {
	var n NIC
	var ok bool
	n.Network, ok = DecodeNetwork(t)
	vlan, _ := t.Int("vlan", 1, MaxVLAN)
	n.VLAN = int(vlan)
	n.Isolated, _ = t.Bool("isolated")
	n.CleanTraffic, _ = t.Bool("clean_traffic")
	n.Inbound, _ = doc.Text(t, "inbound", ParseRate)
	n.Outbound, _ = doc.Text(t, "outbound", ParseRate)
	n.Addresses = doc.OneOrMore(t, "address", MaxAddresses, parseAddress)
	n.Gateways = doc.OneOrMore(t, "gateway", 2, parseHost(`want the address of a router, such as "192.0.2.1"`))
	n.DNS = doc.OneOrMore(t, "dns", MaxDNS, parseHost(`want the address of a name server, such as "192.0.2.53"`))
	if t.Has("direct") {
		refuseWith(t, "direct", "isolated", n.Isolated, "the host's bridge isolates its ports, and there is none")
		refuseWith(t, "direct", "vlan", n.VLAN != 0, "libvirt tags nothing on a macvtap (name a VLAN interface of the host instead)")
		refuseWith(t, "direct", "clean_traffic", n.CleanTraffic, "the host filters what passes its bridge, and there is none")
	}
	return n, ok
}

func refuseWith(t *doc.Table, given, key string, is bool, why string) {
	if is {
		t.Fail(key, "can not be had with %s: %s; give network or bridge instead", given, why)
	}
}

// parseAddress reads a static address with its network's length.
func parseAddress(text string) (netip.Prefix, error) {
	const allowed = `want an address with its network's length, such as "192.0.2.10/24" or "2001:db8::10/64"`
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no address in a network; %s", clip(text), allowed)
	}
	if problem := seed.AddressProblem(p); problem != "" {
		return p, fmt.Errorf("%q %s; %s", clip(text), problem, allowed)
	}
	return p, nil
}

// parseHost makes a parser of addresses without a length. Whether the guest can
// reach them is checkAddresses's.
func parseHost(allowed string) func(string) (netip.Addr, error) {
	return func(text string) (netip.Addr, error) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return a, fmt.Errorf("%q is no IP address; %s", clip(text), allowed)
		}
		return a, nil
	}
}
