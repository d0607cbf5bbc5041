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
			add(problem("the address "+a.String(), AddressProblem(a)))
			add(once(addresses, a.Addr(), name, "the address "+a.Addr().String()))
		}
		for _, gw := range nic.Gateways {
			add(problem("the gateway "+gw.String(), GatewayProblem(nic.Addresses, gw)))
			add(once(gateways, gw.Is4(), name, "a gateway of "+gw.String()+"'s family"))
		}
		for _, server := range nic.DNS {
			add(problem("the name server "+server.String(), NameServerProblem(nic.Addresses, server)))
		}
	}
	return errs
}

func problem(what, why string) error {
	if why == "" {
		return nil
	}
	return errors.New(what + " " + why)
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

// AddressProblem says why a NIC can not have a static address with its network's
// length, or "".
func AddressProblem(p netip.Prefix) string {
	a := p.Addr()
	switch problem := hostProblem(a); {
	case problem != "":
		return problem
	case !p.IsValid():
		return "lacks the length of its network"
	case a.IsLoopback():
		return "is a loopback address"
	case p.Bits() == 0:
		return "makes the whole Internet one network"
	case a.Is6() && p.Bits() < 127 && a == p.Masked().Addr():
		return "is the address that every router of the network has" // RFC 4291, section 2.6.1
	}
	return placeProblem(p, a)
}

// GatewayProblem says why a NIC with those addresses can not have a gateway, or
// "".
func GatewayProblem(own []netip.Prefix, gw netip.Addr) string {
	at := NIC{Addresses: own}.towards(gw)
	switch problem := hostProblem(gw); {
	case problem != "":
		return problem
	case gw.IsLoopback():
		return "is a loopback address"
	case !hasFamily(own, gw):
		return "needs an address of its family on this network; add one to address"
	case at < 0:
		return "is in none of this network's prefixes, so the guest could not reach it; correct it or the address, or give a network-config of your own"
	case slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == gw }):
		return "is the guest's own address; want the router's"
	}
	return placeProblem(own[at], gw)
}

// NameServerProblem says why a NIC with those addresses can not have a name
// server, or "". One of another family makes NetworkManager refuse the whole
// connection, and where a NIC has DHCP its servers come from there. A loopback
// address is that of the guest's own resolver.
func NameServerProblem(own []netip.Prefix, server netip.Addr) string {
	if problem := hostProblem(server); problem != "" {
		return problem
	}
	if !hasFamily(own, server) {
		return "needs an address of its family on this network; add one to address"
	}
	return ""
}

func hasFamily(own []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() })
}

// hostProblem says why nothing that a guest asks for can have an address, or "".
func hostProblem(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "is missing"
	case a.Zone() != "":
		return "has a zone, which means nothing in the guest"
	case a.Is4In6():
		return "is an IPv4 address written as IPv6"
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsMulticast():
		return "is a multicast address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is the broadcast address"
	}
	return ""
}

// placeProblem says whether a is the address of the IPv4 network p itself, or
// its broadcast address. A network of two addresses has neither (RFC 3021).
func placeProblem(p netip.Prefix, a netip.Addr) string {
	switch {
	case !a.Is4() || p.Bits() > 30:
		return ""
	case a == p.Masked().Addr():
		return "is the network's own address, not a host's"
	case !p.Contains(a.Next()):
		return "is the network's broadcast address"
	}
	return ""
}
