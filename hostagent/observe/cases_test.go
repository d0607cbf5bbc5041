package observe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	hold  = 3 * time.Minute
	eth   = "56:00:00:00:00:01"
	addr4 = "192.0.2.10"
	addr6 = "2001:db8::10"
)

// timeline is a proxy with one NIC whose sources answer now and then.
type timeline struct {
	seen    []Sighting
	primary Primary
}

// hears takes an answer of a source.
func (l *timeline) hears(at time.Duration, src AddressSource, addrs ...string) {
	var claims []Claim
	for _, a := range addrs {
		claims = append(claims, Claim{MAC: eth, Addr: netip.MustParseAddr(a), Source: src})
	}
	l.seen = Merge(l.seen, src, Answers(claims, []string{eth}), now.Add(at), hold)
}

// shows gives the addresses as people see them, the primary one first.
func (l *timeline) shows(at time.Duration) (out []string) {
	nics := []NIC{{MAC: eth, Prefixes: []netip.Prefix{subnet, six}}}
	good, _ := Filter(l.seen, nics, nil, nil, now.Add(at-hold))
	good, l.primary = Prefer(good, l.primary)
	for _, a := range good {
		text := a.Addr.String() + " " + string(a.Source)
		if a.Stale {
			text += " stale"
		}
		out = append(out, text)
	}
	return out
}

// moment is what is heard at a time, and what is shown then.
type moment struct {
	at   time.Duration
	from AddressSource // empty: nothing is heard
	says []string
	want []string
}

func (l *timeline) lives(t *testing.T, moments ...moment) {
	t.Helper()
	for _, m := range moments {
		if m.from != "" {
			l.hears(m.at, m.from, m.says...)
		}
		if d := cmp.Diff(m.want, l.shows(m.at)); d != "" {
			t.Errorf("at %s (-want +shown):\n%s", m.at, d)
		}
	}
}

func TestCase043_BothFamiliesInTheEnd(t *testing.T) {
	t.Parallel()
	var l timeline
	l.lives(t,
		moment{0, FromAgent, []string{addr6}, []string{addr6 + " agent"}},
		moment{20 * time.Second, FromAgent, []string{addr6, addr4}, []string{addr4 + " agent", addr6 + " agent"}},
		moment{40 * time.Second, FromAgent, []string{addr4, addr6}, []string{addr4 + " agent", addr6 + " agent"}},
	)
}

// A guest that reboots has for a while no agent, then one without an address,
// then its families one after the other.
func TestCase045_ARebootTakesNoAddressAway(t *testing.T) {
	t.Parallel()
	var l timeline
	both := []string{addr4 + " agent", addr6 + " agent"}
	l.lives(t,
		moment{0, FromAgent, []string{addr4, addr6}, both},
		moment{30 * time.Second, "", nil, both},
		moment{40 * time.Second, FromAgent, nil, both},
		moment{45 * time.Second, FromAgent, []string{"fe80::1", "127.0.0.1"}, both},
		moment{50 * time.Second, FromAgent, []string{addr6}, both},
		moment{70 * time.Second, FromAgent, []string{addr6, addr4}, both},
		moment{10 * time.Minute, "", nil, []string{addr4 + " agent stale", addr6 + " agent stale"}},
		moment{11 * time.Minute, FromAgent, []string{addr4, addr6}, both},
	)
}

// A family that is gone for good goes when the hold has passed.
func TestCase045_WhatIsGoneForGoodGoes(t *testing.T) {
	t.Parallel()
	var l timeline
	l.lives(t,
		moment{0, FromAgent, []string{addr4, addr6}, []string{addr4 + " agent", addr6 + " agent"}},
		moment{hold, FromAgent, []string{addr6}, []string{addr4 + " agent", addr6 + " agent"}},
		moment{hold + time.Minute, FromAgent, []string{addr6}, []string{addr6 + " agent"}},
	)
}

// A virtual address comes and goes with one answer each. It does not become the
// primary one, though it would come first.
func TestCase046_AVirtualAddressComesAndGoes(t *testing.T) {
	t.Parallel()
	var l timeline
	const virtual = "192.0.2.3"
	l.lives(t,
		moment{0, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
		moment{10 * time.Minute, FromAgent, []string{virtual, addr4}, []string{addr4 + " agent", virtual + " agent"}},
		moment{15 * time.Minute, FromAgent, []string{addr4, virtual}, []string{addr4 + " agent", virtual + " agent"}},
		moment{20 * time.Minute, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
	)
}

func TestCase047_TheAgentBeatsALeaseAndALeaseARP(t *testing.T) {
	t.Parallel()
	var l timeline
	l.lives(t,
		moment{0, FromARP, []string{"192.0.2.7"}, []string{"192.0.2.7 arp"}},
		moment{time.Second, FromLease, []string{"192.0.2.7"}, []string{"192.0.2.7 lease"}},
		moment{time.Minute, FromLease, []string{"192.0.2.9"}, []string{"192.0.2.7 arp", "192.0.2.9 lease"}},
		moment{2 * time.Minute, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
	)
}

// Of several addresses in the neighbour table, whose state libvirt does not
// give, all are shown, once each and in one order, and a lease ends that.
func TestCase051_SeveralNeighbours(t *testing.T) {
	t.Parallel()
	var l timeline
	two := []string{"192.0.2.5 arp", "192.0.2.9 arp"}
	l.lives(t,
		moment{0, FromARP, []string{"192.0.2.9", "192.0.2.5", "192.0.2.9"}, two},
		moment{time.Minute, FromARP, []string{"192.0.2.5", "192.0.2.9"}, two},
		moment{2 * time.Minute, FromLease, []string{"192.0.2.9"}, []string{"192.0.2.5 arp", "192.0.2.9 lease"}},
		moment{5 * time.Minute, FromLease, []string{"192.0.2.9"}, []string{"192.0.2.9 lease"}},
	)
}

// A silent agent's stale word does not stand before a fresh lease, and its
// return does not move the proxy about.
func TestI09_TheFreshComeFirstAndStay(t *testing.T) {
	t.Parallel()
	const leased = "192.0.2.20"
	var l timeline
	l.lives(t,
		moment{0, FromAgent, []string{addr4, leased}, []string{addr4 + " agent", leased + " agent"}},
		moment{2 * time.Minute, FromLease, []string{leased}, []string{addr4 + " agent", leased + " agent"}},
		moment{4 * time.Minute, FromLease, []string{leased}, []string{leased + " lease", addr4 + " agent stale"}},
		moment{5 * time.Minute, FromAgent, []string{addr4, leased}, []string{leased + " agent", addr4 + " agent"}},
		moment{6 * time.Minute, FromAgent, []string{leased, addr4}, []string{leased + " agent", addr4 + " agent"}},
		moment{60 * time.Minute, "", nil, []string{leased + " agent stale", addr4 + " agent stale"}},
		moment{61 * time.Minute, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
	)
}

// An IPv4 address that had gone stale does not take the primary place back from
// an IPv6 one; one that is new does.
func TestI09_OnlyANewAddressOfABetterKindTakesOver(t *testing.T) {
	t.Parallel()
	var l timeline
	l.lives(t,
		moment{0, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
		moment{4 * time.Minute, FromLease, []string{addr6}, []string{addr6 + " lease", addr4 + " agent stale"}},
		moment{5 * time.Minute, FromAgent, []string{addr4, addr6}, []string{addr6 + " agent", addr4 + " agent"}},
		moment{6 * time.Minute, FromAgent, []string{"192.0.2.99", addr4, addr6}, []string{addr6 + " agent", addr4 + " agent", "192.0.2.99 agent"}},
		moment{7 * time.Minute, FromAgent, []string{"192.0.2.99", addr6}, []string{"192.0.2.99 agent", addr6 + " agent"}},
	)
}

// What the agent said long ago and a lease confirms is fresh.
func TestI09_ALeaseConfirms(t *testing.T) {
	t.Parallel()
	var l timeline
	l.lives(t,
		moment{0, FromAgent, []string{addr4}, []string{addr4 + " agent"}},
		moment{10 * time.Minute, FromLease, []string{addr4}, []string{addr4 + " lease"}},
	)
}
