package spec

import (
	"net/netip"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// checkAddresses checks how the static addresses of one NIC and what goes with
// them fit together.
func checkAddresses(t *doc.Table, n NIC) {
	if !t.Has("address") {
		for _, key := range []string{"gateway", "dns"} {
			if t.Has(key) {
				t.Fail(key, "means nothing without address: DHCP gives it")
			}
		}
		return
	}
	if t.Failed() {
		return
	}
	if len(n.Gateways) == 2 && n.Gateways[0].Is4() == n.Gateways[1].Is4() {
		t.Fail("gateway", "has two of one family; give at most one for IPv4 and one for IPv6")
	}
	for _, g := range n.Gateways {
		if problem := gatewayProblem(n.Addresses, g); problem != "" {
			t.Fail("gateway", "%s %s", g, problem)
		}
	}
	for _, server := range n.DNS {
		if !slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == server.Is4() }) {
			t.Fail("dns", "%s needs an address of its family on this network; add one to address", server)
		}
	}
}

// gatewayProblem says why a NIC with those addresses can not reach g, or "".
func gatewayProblem(own []netip.Prefix, g netip.Addr) string {
	family := slices.DeleteFunc(slices.Clone(own), func(p netip.Prefix) bool { return p.Addr().Is4() != g.Is4() })
	if len(family) == 0 {
		return "needs an address of its family on this network; add one to address"
	}
	inside := g.Is6() && g.IsLinkLocalUnicast()
	for _, p := range family {
		if p.Addr() == g {
			return "is the guest's own address; want the router's"
		}
		if !p.Contains(g) {
			continue
		}
		inside = true
		if problem := placeProblem(p, g); problem != "" {
			return problem
		}
	}
	if !inside {
		return "is in none of this network's prefixes, so the guest could not reach it; correct it or the address"
	}
	return ""
}

// nicUses is what the NICs of one guest may have once only.
type nicUses struct {
	addresses map[netip.Addr]bool
	gateway   [2]bool // IPv4, IPv6
}

// check reports what n has that a NIC before it has.
func (u *nicUses) check(t *doc.Table, n NIC) {
	if u.addresses == nil {
		u.addresses = map[netip.Addr]bool{}
	}
	for _, p := range n.Addresses {
		if u.addresses[p.Addr()] {
			t.Fail("address", "%s is given twice in this spec", p.Addr())
		}
		u.addresses[p.Addr()] = true
	}
	before := u.gateway
	for _, g := range n.Gateways {
		i, family := 0, "IPv4"
		if g.Is6() {
			i, family = 1, "IPv6"
		}
		if before[i] {
			t.Fail("gateway", "is the second for %s in this spec; a guest has one default route", family)
		}
		u.gateway[i] = true
	}
}

// static tells whether any of the NICs has static addresses.
func static(nics []NIC) bool {
	return slices.ContainsFunc(nics, func(n NIC) bool { return len(n.Addresses) > 0 })
}
