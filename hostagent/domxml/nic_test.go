package domxml

import (
	"net/netip"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// nics is input with a NIC of each kind.
func nics() Input {
	in := input(KVM)
	in.Spec.Networks = []spec.NIC{
		{
			Network: spec.Network{Network: "default"}, Isolated: true, CleanTraffic: true, Inbound: 1_000_000, Outbound: 500_000,
			Addresses: []netip.Prefix{
				netip.MustParsePrefix("192.0.2.10/24"), netip.MustParsePrefix("2001:db8::10/64"), netip.MustParsePrefix("192.0.2.11/24"),
			},
		},
		{Network: spec.Network{Bridge: "br0"}, VLAN: 42, CleanTraffic: true},
		{Network: spec.Network{Direct: "eth1"}, Outbound: 1},
	}
	return in
}

func TestKilobytesNeverRoundsALimitAway(t *testing.T) {
	t.Parallel()
	for rate, want := range map[spec.Rate]uint{0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, 125_000_000: 125_000} {
		if got := Kilobytes(rate); got != want {
			t.Errorf("%d bytes/s are %d, want %d", rate, got, want)
		}
	}
}
