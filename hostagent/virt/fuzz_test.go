package virt

import (
	"encoding/json"
	"slices"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Whatever a guest agent says, its claims are bounded and plain.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`[{"Name":"e","Hwaddr":"56:00:00:00:00:0A","Addrs":[{"Addr":"192.0.2.1"},{"Addr":"fe80::1%e"},{"Addr":"::ffff:1.2.3.4"}]}]`))
	f.Add([]byte(`[{"Hwaddr":"00:00:00:00:00:00","Addrs":[{"Addr":"127.0.0.1"}]},{"Hwaddr":"x","Addrs":[{"Addr":"y"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer []libvirt.DomainInterface
		if json.Unmarshal(data, &answer) != nil {
			return
		}
		all := claims(answer, observe.FromAgent)
		if len(all) > addressesMax {
			t.Errorf("%d claims", len(all))
		}
		for _, c := range all {
			if mac, ok := canonicalMAC(c.MAC); !ok || mac != c.MAC || !c.Addr.IsValid() || c.Addr.Zone() != "" || c.Addr.Is4In6() {
				t.Errorf("claim %+v", c)
			}
		}
	})
}

// Whatever a DHCP server lists, a domain has of its claims the same or fewer.
func FuzzLeases(f *testing.F) {
	f.Add([]byte(`[{"Mac":"56:00:00:00:00:0A","IPaddr":"192.0.2.5","ExpiryTime":"1970-01-01T00:00:00Z"}]`))
	f.Add([]byte(`[{"Mac":"56:00:00:00:00:0a","IPaddr":"192.0.2.9","ExpiryTime":"2026-01-02T04:00:00Z"},{"Mac":"","IPaddr":"::"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var found []libvirt.NetworkDHCPLease
		if json.Unmarshal(data, &found) != nil {
			return
		}
		have := leaseClaims(macA, "192.0.2.5", macA, "192.0.2.9", macB, "192.0.2.5", macA, "2001:db8::1")
		left := latest(have, leasesOf(found), caseNow)
		for _, c := range left {
			if !slices.Contains(have, c) {
				t.Errorf("of %v %v is left", have, left)
			}
		}
	})
}
