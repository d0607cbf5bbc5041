package observe

import (
	"net/netip"
	"slices"
	"time"
)

// Answers leaves of what a source claims what is an answer for a domain with
// these MACs: an address that can be reached from elsewhere, on one of its own
// interfaces. A guest that is just booting has link-local addresses, and those
// of its containers' bridges, before it has one of its own.
func Answers(claims []Claim, macs []string) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool {
		return !c.Addr.IsGlobalUnicast() || !slices.Contains(macs, c.MAC)
	})
}

// kind is an address family of an interface: what an answer speaks of as a
// whole.
type kind struct {
	mac string
	v4  bool
}

func kindOf(c Claim) kind { return kind{c.MAC, is4(c.Addr)} }

func is4(a netip.Addr) bool { return a.Unmap().Is4() }

// Merge brings sightings up to date with a new answer of one source, of which
// Answers has left what counts: what an earlier answer of the same source said
// is replaced. The agent's answer is complete, so it also replaces what lesser
// sources said. An empty answer replaces nothing. While a source answers,
// lesser ones are not asked: what they said goes once it is older than hold.
//
// A guest that reboots gets its families one after the other: what the agent
// says nothing of at all, a whole family of an interface, goes only when it
// was not seen for longer than hold.
func Merge(old []Sighting, src AddressSource, claims []Claim, now time.Time, hold time.Duration) []Sighting {
	if len(claims) == 0 {
		return old
	}
	spoken := map[kind]bool{}
	for _, c := range claims {
		spoken[kindOf(c)] = true
	}
	var out []Sighting
	for _, s := range old {
		old := now.Sub(s.Seen) > hold
		replaced := s.Source == src || old && rank(s.Source) > rank(src)
		if src == FromAgent {
			replaced = old || spoken[kindOf(s.Claim)]
		}
		if !replaced {
			out = append(out, s)
		}
	}
	for _, c := range claims {
		out = append(out, Sighting{Claim: c, Seen: now})
	}
	return out
}
