package observe

import (
	"net/netip"
	"slices"
)

// Primary is which address of a proxy is its primary one, and why: the memory
// that keeps it from going to and fro.
type Primary struct {
	Addr netip.Addr
	// Outran is the address that would be the primary one by its order, but had
	// gone stale before. It does not come back while Addr is fresh.
	Outran netip.Addr
}

// Prefer puts the primary address first, and the fresh before the stale; in,
// which it changes, is in the order of Filter.
//
// The primary address stays what it was while it is fresh, and while all are
// stale. Only a fresh address of a better kind takes its place: an IPv4 address
// that of an IPv6 one, one of an earlier NIC that of a later one. That is so
// with addresses that come up one after the other. One that had been primary
// and went stale is no such address: a guest agent that is silent now and then
// must not move the proxy about (invariant 9).
func Prefer(in []Address, was Primary) ([]Address, Primary) {
	slices.SortStableFunc(in, func(a, b Address) int {
		switch {
		case a.Stale == b.Stale:
			return 0
		case b.Stale:
			return -1
		}
		return 1
	})
	if len(in) == 0 {
		return in, Primary{}
	}
	first := in[0]
	old := slices.IndexFunc(in, func(a Address) bool { return a.Addr == was.Addr })
	if old < 0 {
		return in, Primary{Addr: first.Addr}
	}
	held := in[old]
	switch {
	case held.Stale && !first.Stale:
		return in, Primary{Addr: first.Addr, Outran: held.Addr}
	case compareKind(first, held) < 0 && !first.Stale && first.Addr != was.Outran:
		return in, Primary{Addr: first.Addr}
	}
	in = slices.Insert(slices.Delete(in, old, old+1), 0, held)
	return in, was
}

// Equal tells whether both say the same.
func (p Primary) Equal(o Primary) bool { return p == o }
