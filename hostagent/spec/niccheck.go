package spec

import (
	"net/netip"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
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
		if problem := seed.GatewayProblem(n.Addresses, g); problem != "" {
			t.Fail("gateway", "%s %s", g, problem)
		}
	}
	for _, server := range n.DNS {
		if problem := seed.NameServerProblem(n.Addresses, server); problem != "" {
			t.Fail("dns", "%s %s", server, problem)
		}
	}
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
