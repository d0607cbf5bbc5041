package observe

import (
	"cmp"
	"maps"
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
	Static   []netip.Addr   // addresses that its spec gives it
}

// Rejected is a claim that does not count, with the reason in words.
type Rejected struct {
	Addr netip.Addr
	Why  string
}

// Filter believes of a guest's claims only what can be true (invariant 17): an
// address on an interface whose MAC is one of nics, which its spec gives it or
// which is inside that interface's subnets or inside allowed, and not one of the
// host's own. Loopback, link-local, multicast and unspecified addresses are
// left out silently.
//
// The result is in stable order: IPv4 before IPv6, then by NIC, then by
// address. An address that several sources claim is listed once, with the most
// trusted of those that made the claim at since or later. When none did, it is
// Stale.
func Filter(claims []Sighting, nics []NIC, allowed []netip.Prefix, host []netip.Addr, since time.Time) ([]Address, []Rejected) {
	best := map[netip.Addr]Address{}
	var bad []Rejected
	for _, c := range claims {
		nic := slices.IndexFunc(nics, func(n NIC) bool { return n.MAC == c.MAC })
		if nic < 0 || !c.Addr.IsGlobalUnicast() {
			continue
		}
		addr := c.Addr.Unmap().WithZone("")
		if why := implausible(addr, nics[nic], allowed, host); why != "" {
			bad = append(bad, Rejected{Addr: addr, Why: why})
			continue
		}
		found := Address{Addr: addr, Source: c.Source, Seen: c.Seen, Stale: c.Seen.Before(since), NIC: nic}
		if old, known := best[addr]; !known || found.betterThan(old) {
			best[addr] = found
		}
	}
	good := slices.Collect(maps.Values(best))
	slices.SortFunc(good, func(a, b Address) int {
		return cmp.Or(compareKind(a, b), a.Addr.Compare(b.Addr))
	})
	return good, bad
}

// betterThan tells which of two claims of one address counts.
func (a Address) betterThan(b Address) bool {
	if a.Stale != b.Stale {
		return b.Stale
	}
	return rank(a.Source) < rank(b.Source)
}

// compareKind orders addresses by family, then by NIC.
func compareKind(a, b Address) int {
	return cmp.Or(cmp.Compare(a.Addr.BitLen(), b.Addr.BitLen()), cmp.Compare(a.NIC, b.NIC))
}

func implausible(a netip.Addr, nic NIC, allowed []netip.Prefix, host []netip.Addr) string {
	if slices.Contains(host, a) {
		return "is the host's own"
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if !slices.Contains(nic.Static, a) && !slices.ContainsFunc(nic.Prefixes, within) && !slices.ContainsFunc(allowed, within) {
		return "is outside the network's subnets and policy.allowed_cidrs"
	}
	return ""
}

func rank(s AddressSource) int { return slices.Index(AddressSources[:], s) }
