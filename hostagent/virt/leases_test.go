package virt

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

const (
	macA = "56:00:00:00:00:0a"
	macB = "56:00:00:00:00:0b"
)

func leaseClaims(of ...string) []observe.Claim {
	var out []observe.Claim
	for i := 0; i < len(of); i += 2 {
		out = append(out, observe.Claim{MAC: of[i], Addr: netip.MustParseAddr(of[i+1]), Source: observe.FromLease})
	}
	return out
}

// Case 47: a guest that changed its DHCP client-id has two leases.
func TestCase047TheLatestLeaseCounts(t *testing.T) {
	t.Parallel()
	at := func(mac, addr string, minutes int) lease {
		l := lease{mac: mac, addr: netip.MustParseAddr(addr)}
		if minutes > 0 {
			l.expiry = time.Unix(int64(minutes)*60, 0)
		}
		return l
	}
	two := leaseClaims(macA, "192.0.2.5", macA, "192.0.2.9")
	for _, test := range []struct {
		name   string
		claims []observe.Claim
		leases []lease
		want   []observe.Claim
	}{
		{"the one that runs out last", two, []lease{at(macA, "192.0.2.5", 10), at(macA, "192.0.2.9", 50)}, leaseClaims(macA, "192.0.2.9")},
		{"whatever their order", two, []lease{at(macA, "192.0.2.9", 50), at(macA, "192.0.2.5", 10)}, leaseClaims(macA, "192.0.2.9")},
		{"one without end is last", two, []lease{at(macA, "192.0.2.5", 0), at(macA, "192.0.2.9", 50)}, leaseClaims(macA, "192.0.2.5")},
		{"one that has run out is none", two, []lease{{macA, netip.MustParseAddr("192.0.2.5"), time.Unix(59, 0)}, at(macA, "192.0.2.9", 50)}, leaseClaims(macA, "192.0.2.9")},
		{"leases of others say nothing", two, []lease{at(macB, "192.0.2.5", 10)}, two},
		{"a lease given meanwhile", two, []lease{at(macA, "192.0.2.33", 90)}, two},
		{"families apart", append(leaseClaims(macA, "2001:db8::1"), two...), []lease{at(macA, "192.0.2.5", 10), at(macA, "192.0.2.9", 50)},
			leaseClaims(macA, "2001:db8::1", macA, "192.0.2.9")},
		{"interfaces apart", append(leaseClaims(macB, "192.0.2.77"), two...), []lease{at(macA, "192.0.2.5", 60), at(macA, "192.0.2.9", 50)},
			leaseClaims(macB, "192.0.2.77", macA, "192.0.2.5")},
	} {
		if diff := cmp.Diff(fmt.Sprint(test.want), fmt.Sprint(latest(test.claims, test.leases, time.Unix(60, 0)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNetworksAreAskedOnlyAboutSeveralLeases(t *testing.T) {
	t.Parallel()
	if got := ambiguous(leaseClaims(macA, "192.0.2.5", macB, "192.0.2.6", macA, "2001:db8::1")); len(got) != 0 {
		t.Errorf("ambiguous: %v", got)
	}
	macs := ambiguous(leaseClaims(macA, "192.0.2.5", macA, "192.0.2.6", macA, "192.0.2.7"))
	if diff := cmp.Diff([]string{macA}, macs); diff != "" {
		t.Error(diff)
	}
	got, err := networksOf(`<domain type='kvm'><devices>
		<interface type='network'><mac address='56:00:00:00:00:0B'/><source network='other'/></interface>
		<interface type='bridge'><mac address='56:00:00:00:00:0A'/><source bridge='br0'/></interface>
		<interface type='network'><mac address='56:00:00:00:00:0A'/><source network='default'/></interface>
		</devices></domain>`, macs)
	if diff := cmp.Diff([]string{"default"}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
