package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// static are the addresses that a spec gives a NIC.
func static(n spec.NIC) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Addresses {
		out = append(out, a.Addr().Unmap())
	}
	return out
}

// claimStatic finds the proxies whose specs ask for a static address that
// another proxy of this host has. What runs as its spec asks has it first, then
// what is there at all, then whoever comes first by name. One that may not be
// made takes nothing from others.
func (p *planner) claimStatic(subjects []*subject) {
	type claimant struct {
		*subject
		rank int
	}
	var all []claimant
	for _, s := range subjects {
		if s.mem.Last == nil || !s.mem.Last.Static() {
			continue
		}
		rank := 2
		switch {
		case s.current():
			rank = 0
		case p.exists(s):
			rank = 1
		case s.want == nil:
			continue
		}
		all = append(all, claimant{s, rank})
	}
	slices.SortStableFunc(all, func(a, b claimant) int { return cmp.Compare(a.rank, b.rank) })
	holder := map[netip.Addr]*subject{}
	for _, c := range all {
		var own []netip.Addr
		for _, n := range c.mem.Last.Networks {
			own = append(own, static(n)...)
		}
		for _, a := range own {
			if h := holder[a]; h != nil {
				c.taken = fmt.Sprintf("%s, which its spec gives it, is that of proxy %s of this host", a, h.name)
			}
		}
		if c.taken != "" && c.rank == 2 {
			continue
		}
		for _, a := range own {
			if holder[a] == nil {
				holder[a] = c.subject
			}
		}
	}
}

// addressTaken keeps a guest from being made with an address that another proxy
// of this host has; what runs is not touched for it.
func (s *subject) addressTaken() bool {
	if s.taken == "" {
		return false
	}
	s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "AddressConflict", message: s.taken,
		next: "wait for another address in one of the two specs"}
	return true
}
