package seed

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var macForm = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$`)

// checkNetwork returns what is wrong with the network-config that was given, or
// with the NICs it is to be made of.
func (in Input) checkNetwork() []error {
	bad := func(problem string) []error { return []error{&InputError{NetworkConfigFile, problem}} }
	switch {
	case len(in.NICs) > 0 && len(in.NetworkConfig) > 0:
		return bad("is given, and NICs to make one of as well; leave one of them out")
	case len(in.NICs) > 0:
		return in.checkNICs()
	case len(in.NetworkConfig) > 0:
		if problem := mappingProblem(in.NetworkConfig); problem != "" {
			return bad(problem)
		}
	}
	return nil
}

// checkNICs names everything for which a guest could be left without the
// network that was asked for.
func (in Input) checkNICs() []error {
	var errs []error
	macs, addresses, gateways := map[string]string{}, map[netip.Addr]string{}, map[bool]string{}
	for i, nic := range in.NICs {
		name := nicName(i)
		add := func(err error) {
			if err != nil {
				errs = append(errs, &InputError{NetworkConfigFile, name + ": " + err.Error()})
			}
		}
		add(checkMAC(nic.MAC))
		add(once(macs, strings.ToLower(nic.MAC), name, "the MAC "+clip(nic.MAC)))
		for _, a := range nic.Addresses {
			add(checkAddress(a))
			add(once(addresses, a.Addr(), name, "the address "+a.Addr().String()))
		}
		for _, gw := range nic.Gateways {
			add(nic.checkGateway(gw))
			add(once(gateways, gw.Is4(), name, "a gateway of "+gw.String()+"'s family"))
		}
		for _, server := range nic.DNS {
			add(nic.checkDNS(server))
		}
	}
	return errs
}

// once notes who has a thing and reports who had it before.
func once[K comparable](taken map[K]string, key K, name, what string) error {
	if other, ok := taken[key]; ok {
		return fmt.Errorf("%s is at %s already; give it once", what, other)
	}
	taken[key] = name
	return nil
}

func checkMAC(mac string) error {
	if !macForm.MatchString(mac) {
		return fmt.Errorf("%q is no MAC address such as 56:00:00:00:00:01", clip(mac))
	}
	if strings.ContainsRune("13579bBdDfF", rune(mac[1])) || strings.Trim(mac, "0:") == "" {
		return fmt.Errorf("%s is no MAC address of a single interface", mac)
	}
	return nil
}

// checkAddress reports why a guest can not have an address.
func checkAddress(a netip.Prefix) error {
	switch addr := a.Addr(); {
	case !a.IsValid() || a.Bits() == 0:
		return errors.New("an address needs the length of its network, such as 192.0.2.10/24")
	case hostProblem(addr) != "":
		return fmt.Errorf("the address %s %s", a, hostProblem(addr))
	case addr.Is4() && a.Bits() < 31 && a.Masked().Addr() == addr:
		return fmt.Errorf("%s is the address of the network; name one of a host in it", a)
	case addr.Is4() && a.Bits() < 31 && !a.Contains(addr.Next()):
		return fmt.Errorf("%s is the broadcast address of its network; name one of a host", a)
	}
	return nil
}

// hostProblem returns why no host has an address, or "".
func hostProblem(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "is missing"
	case addr.Is4In6():
		return "is IPv4 in IPv6's form; write it as IPv4"
	case addr.Zone() != "":
		return "has a zone; leave out what follows the %"
	case addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is none that another host can have"
	}
	return ""
}

func (n NIC) checkGateway(gw netip.Addr) error {
	switch {
	case hostProblem(gw) != "":
		return fmt.Errorf("the gateway %s %s", gw, hostProblem(gw))
	case n.towards(gw) < 0:
		return fmt.Errorf("the gateway %s is in the network of no static address here; "+
			"a route over it needs a network-config of your own", gw)
	case slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr() == gw }):
		return fmt.Errorf("the gateway %s is the guest's own address", gw)
	}
	return nil
}

// checkDNS wants an address of the server's family: NetworkManager refuses the
// whole connection when there is none, and where the NIC has DHCP the servers
// come from there.
func (n NIC) checkDNS(server netip.Addr) error {
	if !server.IsValid() || server.Zone() != "" || server.Is4In6() || server.IsUnspecified() || server.IsMulticast() {
		return fmt.Errorf("the name server %s is no address of a server", server)
	}
	if !slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() == server.Is4() }) {
		return fmt.Errorf("the name server %s needs a static address of its family here", server)
	}
	return nil
}
