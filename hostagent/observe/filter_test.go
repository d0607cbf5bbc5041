package observe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	now    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	subnet = netip.MustParsePrefix("192.0.2.0/24")
	six    = netip.MustParsePrefix("2001:db8::/64")
)

func claim(mac, addr string, src AddressSource) Sighting {
	return Sighting{Claim: Claim{MAC: mac, Addr: netip.MustParseAddr(addr), Source: src}, Seen: now}
}

func TestI17_FilterBelievesOnlyWhatCanBeTrue(t *testing.T) {
	const ours, second, docker = "56:00:00:00:00:01", "56:00:00:00:00:02", "02:42:00:00:00:01"
	nics := []NIC{{MAC: ours, Prefixes: []netip.Prefix{subnet, six}}, {
		MAC: second, Prefixes: []netip.Prefix{subnet}, Static: []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("192.0.2.1")},
	}}
	type got struct {
		Good []string
		Bad  int
	}
	for _, c := range []struct {
		name    string
		claims  []Sighting
		allowed []netip.Prefix
		want    got
	}{
		{"nothing", nil, nil, got{}},
		{"container and tunnel interfaces do not count", []Sighting{
			claim(docker, "172.17.0.1", FromAgent), claim(ours, "192.0.2.10", FromAgent),
		}, nil, got{Good: []string{"192.0.2.10 agent"}}},
		{"loopback, link-local, multicast, unspecified", []Sighting{
			claim(ours, "127.0.0.1", FromAgent), claim(ours, "::1", FromAgent), claim(ours, "fe80::1%eth0", FromAgent),
			claim(ours, "169.254.1.1", FromAgent), claim(ours, "224.0.0.1", FromAgent), claim(ours, "0.0.0.0", FromAgent),
		}, nil, got{}},
		{"outside the subnet", []Sighting{claim(ours, "198.51.100.1", FromAgent)}, nil, got{Bad: 1}},
		{"outside the subnet but allowed", []Sighting{claim(ours, "198.51.100.1", FromAgent)},
			[]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, got{Good: []string{"198.51.100.1 agent"}}},
		{"its spec's own, on that NIC only, and nothing beside it", []Sighting{
			claim(second, "203.0.113.7", FromAgent), claim(ours, "203.0.113.7", FromAgent), claim(second, "203.0.113.8", FromAgent),
		}, nil, got{Good: []string{"203.0.113.7 agent"}, Bad: 2}},
		{"its spec's own, but the host has it", []Sighting{claim(second, "192.0.2.1", FromAgent)}, nil, got{Bad: 1}},
		{"the host's own", []Sighting{claim(ours, "192.0.2.1", FromAgent)}, nil, got{Bad: 1}},
		{"the host's own in IPv4-mapped form", []Sighting{claim(ours, "::ffff:192.0.2.1", FromAgent)}, nil, got{Bad: 1}},
		{"best source wins, IPv4 first, NIC order", []Sighting{
			claim(ours, "2001:db8::5", FromAgent), claim(second, "192.0.2.9", FromARP),
			claim(ours, "192.0.2.77", FromLease), claim(ours, "192.0.2.77", FromAgent),
		}, nil, got{Good: []string{"192.0.2.77 agent", "192.0.2.9 arp", "2001:db8::5 agent"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			good, bad := Filter(c.claims, nics, c.allowed, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, now.Add(-time.Minute))
			g := got{Bad: len(bad)}
			for _, a := range good {
				g.Good = append(g.Good, a.Addr.String()+" "+string(a.Source))
			}
			if d := cmp.Diff(c.want, g); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	const mac = "56:00:00:00:00:01"
	c := func(addr string, src AddressSource) Claim {
		return Claim{MAC: mac, Addr: netip.MustParseAddr(addr), Source: src}
	}
	later := now.Add(time.Minute)
	addrs := func(ss []Sighting) (out []string) {
		for _, s := range ss {
			out = append(out, s.Addr.String()+" "+string(s.Source))
		}
		return out
	}
	lease := Merge(nil, FromLease, []Claim{c("192.0.2.5", FromLease)}, now, 3*time.Minute)
	for _, tc := range []struct {
		name string
		got  []Sighting
		want []string
	}{
		{"an empty answer takes nothing away", Merge(lease, FromAgent, nil, later, 3*time.Minute), []string{"192.0.2.5 lease"}},
		{"the agent replaces lesser sources", Merge(lease, FromAgent, []Claim{c("192.0.2.6", FromAgent)}, later, 3*time.Minute), []string{"192.0.2.6 agent"}},
		{"a lease adds to what the agent said", Merge(Merge(nil, FromAgent, []Claim{c("192.0.2.6", FromAgent)}, now, 3*time.Minute), FromLease, []Claim{c("192.0.2.5", FromLease)}, later, 3*time.Minute),
			[]string{"192.0.2.6 agent", "192.0.2.5 lease"}},
		{"a new lease replaces the old one", Merge(lease, FromLease, []Claim{c("192.0.2.8", FromLease)}, later, 3*time.Minute), []string{"192.0.2.8 lease"}},
	} {
		if d := cmp.Diff(tc.want, addrs(tc.got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}
