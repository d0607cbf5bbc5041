package seed

import (
	"encoding/json"
	"fmt"
	"hash"
	"net/netip"
	"slices"
	"strings"
)

// The generated network-config is version 1, written as JSON, which is YAML.
// Every renderer of cloud-init 20.4 to 26 (ifupdown, netplan, systemd-networkd,
// sysconfig, NetworkManager) makes the same network of it, which is not so for
// version 2: netplan gets that one as it stands, where it warns of "gateway4" and
// older releases do not know a route "to: default". Four details matter:
//
//   - IPv6 addresses are "static" too: NetworkManager's renderer makes "automatic"
//     of "static6" in 22.4;
//   - a gateway stands once, at the first address that reaches it: a second
//     default route makes ifup fail;
//   - all name servers stand at a NIC's last address, since sysconfig keeps only
//     the list it meets last and NetworkManager's renderer drops a server of a
//     family it has not met yet; and those of the other family at the last
//     address of theirs too, since ifupdown's renderer drops them elsewhere in 26;
//   - the names eth0, eth1, ... are given by MAC, and cloud-init renames.
type networkV1 struct {
	Version int          `json:"version"`
	Config  []physicalV1 `json:"config"`
}

type physicalV1 struct {
	Type    string     `json:"type"`
	Name    string     `json:"name"`
	MAC     string     `json:"mac_address"`
	Subnets []subnetV1 `json:"subnets"`
}

type subnetV1 struct {
	Type    string   `json:"type"`
	Address string   `json:"address,omitempty"`
	Gateway string   `json:"gateway,omitempty"`
	DNS     []string `json:"dns_nameservers,omitempty"`
}

// networkConfig returns the network-config file: the one given, or one made of
// the NICs; empty for no file.
func (in Input) networkConfig() []byte {
	if len(in.NICs) == 0 {
		return in.NetworkConfig
	}
	doc := networkV1{Version: 1}
	for i, nic := range in.NICs {
		doc.Config = append(doc.Config, physicalV1{
			Type: "physical", Name: nicName(i), MAC: strings.ToLower(nic.MAC), Subnets: nic.subnets()})
	}
	raw, _ := json.MarshalIndent(doc, "", "  ") // strings and numbers can not fail to encode
	return append(raw, '\n')
}

// nicName is the name that NIC number i gets in the guest.
func nicName(i int) string { return fmt.Sprintf("eth%d", i) }

func (n NIC) subnets() []subnetV1 {
	if len(n.Addresses) == 0 {
		return []subnetV1{{Type: "dhcp"}}
	}
	subnets := make([]subnetV1, len(n.Addresses))
	for i, a := range n.Addresses {
		subnets[i] = subnetV1{Type: "static", Address: a.String()}
	}
	for _, gw := range n.Gateways {
		if at := n.towards(gw); at >= 0 {
			subnets[at].Gateway = gw.String()
		}
	}
	for _, server := range n.DNS {
		for _, at := range n.knownAt(server) {
			subnets[at].DNS = append(subnets[at].DNS, server.String())
		}
	}
	return subnets
}

// knownAt gives the numbers of the addresses where a name server stands: the
// last of its family, and the last of all.
func (n NIC) knownAt(server netip.Addr) []int {
	last := len(n.Addresses) - 1
	for i := last - 1; i >= 0 && n.Addresses[last].Addr().Is4() != server.Is4(); i-- {
		if n.Addresses[i].Addr().Is4() == server.Is4() {
			return []int{i, last}
		}
	}
	return []int{last}
}

// towards is the number of the first address that reaches a gateway without
// another one, -1 for none. Link-local gateways are reached from every IPv6
// address.
func (n NIC) towards(gw netip.Addr) int {
	return slices.IndexFunc(n.Addresses, func(a netip.Prefix) bool {
		return a.Contains(gw) || gw.Is6() && gw.IsLinkLocalUnicast() && a.Addr().Is6()
	})
}

// hashNICs adds what was asked for each NIC but its MAC. Without NICs it adds
// nothing, so that inputs from before there were NICs keep their hash.
func (in Input) hashNICs(h hash.Hash) {
	if len(in.NICs) == 0 {
		return
	}
	var text strings.Builder
	for i, nic := range in.NICs {
		fmt.Fprintf(&text, "nic %d\n", i)
		for _, a := range nic.Addresses {
			fmt.Fprintf(&text, "address %s\n", a)
		}
		for _, gw := range nic.Gateways {
			fmt.Fprintf(&text, "gateway %s\n", gw)
		}
		for _, server := range nic.DNS {
			fmt.Fprintf(&text, "dns %s\n", server)
		}
	}
	hashPart(h, "nics", true, []byte(text.String()))
}
