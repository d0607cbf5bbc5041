package observe

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Sighting is a claim with the time it was last made.
type Sighting struct {
	Claim
	Seen time.Time
}

// NIC is what is known beforehand of one of a domain's network interfaces.
type NIC struct {
	MAC      string
	Prefixes []netip.Prefix // subnets of the network it is on
}

// Rejected is a claim that does not count, with the reason in words.
type Rejected struct {
	Addr netip.Addr
	Why  string
}

// Filter believes of a guest's claims only what can be true (invariant 17): an
// address on an interface whose MAC is one of nics, inside that interface's
// subnets or inside allowed, and not one of the host's own. Loopback,
// link-local, multicast and unspecified addresses are left out silently.
//
// The result is in stable order: IPv4 before IPv6, then by NIC, then by
// address; the first is the primary. An address that several sources claim is
// listed once, with the most trusted source.
func Filter(claims []Sighting, nics []NIC, allowed []netip.Prefix, host []netip.Addr) ([]Address, []Rejected) {
	type ranked struct {
		Address
		nic int
	}
	best := map[netip.Addr]ranked{}
	var bad []Rejected
	for _, c := range claims {
		nic := slices.IndexFunc(nics, func(n NIC) bool { return n.MAC == c.MAC })
		if nic < 0 || !c.Addr.IsGlobalUnicast() {
			continue
		}
		addr := c.Addr.Unmap().WithZone("")
		if why := implausible(addr, nics[nic].Prefixes, allowed, host); why != "" {
			bad = append(bad, Rejected{Addr: addr, Why: why})
			continue
		}
		old, known := best[addr]
		if !known || rank(c.Source) < rank(old.Source) {
			best[addr] = ranked{Address{Addr: addr, Source: c.Source, Seen: c.Seen}, nic}
		}
	}
	all := make([]ranked, 0, len(best))
	for _, r := range best {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.Addr.BitLen(), b.Addr.BitLen()), cmp.Compare(a.nic, b.nic), a.Addr.Compare(b.Addr))
	})
	var good []Address
	for _, r := range all {
		good = append(good, r.Address)
	}
	return good, bad
}

func implausible(a netip.Addr, subnets, allowed []netip.Prefix, host []netip.Addr) string {
	if slices.Contains(host, a) {
		return "is the host's own"
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if !slices.ContainsFunc(subnets, within) && !slices.ContainsFunc(allowed, within) {
		return "is outside the network's subnets and policy.allowed_cidrs"
	}
	return ""
}

func rank(s AddressSource) int { return slices.Index(AddressSources[:], s) }

// Merge brings sightings up to date with a new answer of one source: what an
// earlier answer of the same source said is replaced. The agent's answer is
// complete, so it also replaces what lesser sources said; an empty answer
// replaces nothing, because a guest that is just booting has none yet.
func Merge(old []Sighting, src AddressSource, claims []Claim, now time.Time) []Sighting {
	if len(claims) == 0 {
		return old
	}
	var out []Sighting
	for _, s := range old {
		if src != FromAgent && s.Source != src {
			out = append(out, s)
		}
	}
	for _, c := range claims {
		out = append(out, Sighting{Claim: c, Seen: now})
	}
	return out
}
