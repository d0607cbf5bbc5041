package virt

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// lease is a DHCP server's word on who has an address.
type lease struct {
	mac    string
	addr   netip.Addr
	expiry time.Time // zero: never
}

// nicFamily is what has one current lease.
type nicFamily struct {
	mac string
	v4  bool
}

func familyOf(c observe.Claim) nicFamily { return nicFamily{c.MAC, c.Addr.Is4()} }

// latestLeases leaves of several leases of one interface the one given last: a
// guest whose client-id changed has another address now, and its old lease
// lives on. libvirt's list of a domain's addresses does not tell them apart,
// so the networks are asked; only then does it cost more calls.
// What can not be asked leaves all of them.
func (c *Conn) latestLeases(k *link, d *libvirt.Domain, claims []observe.Claim) []observe.Claim {
	macs := ambiguous(claims)
	if len(macs) == 0 {
		return claims
	}
	text, err := d.GetXMLDesc(0)
	if err != nil {
		return claims
	}
	networks, err := networksOf(text, macs)
	if err != nil {
		return claims
	}
	var leases []lease
	for _, name := range networks {
		some, err := c.leases(k, name)
		if err != nil {
			return claims
		}
		leases = append(leases, some...)
	}
	return latest(claims, leases, time.Now())
}

// ambiguous lists the MACs with more than one address of a family.
func ambiguous(claims []observe.Claim) []string {
	count := map[nicFamily]int{}
	var macs []string
	for _, c := range claims {
		if count[familyOf(c)]++; count[familyOf(c)] == 2 {
			macs = append(macs, c.MAC)
		}
	}
	return macs
}

// networksOf lists the libvirt networks of the interfaces with these MACs.
func networksOf(text string, macs []string) ([]string, error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("its XML: %w", err)
	}
	var out []string
	if d.Devices == nil {
		return nil, nil
	}
	for _, nic := range d.Devices.Interfaces {
		if nic.MAC == nil || nic.Source == nil || nic.Source.Network == nil {
			continue
		}
		mac, _ := canonicalMAC(nic.MAC.Address)
		if name := nic.Source.Network.Network; slices.Contains(macs, mac) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

func (c *Conn) leases(k *link, network string) ([]lease, error) {
	n, err := k.conn.LookupNetworkByName(network)
	if err != nil {
		return nil, err
	}
	c.hold(1)
	defer c.free(n)
	found, err := n.GetDHCPLeases()
	if err != nil {
		return nil, err
	}
	return leasesOf(found), nil
}

// leasesOf takes the entries of a DHCP server that name a MAC and an address.
// The host name in an entry says nothing: a VM that is gone may have had the
// same one.
func leasesOf(found []libvirt.NetworkDHCPLease) []lease {
	var out []lease
	for _, l := range found {
		mac, ok := canonicalMAC(l.Mac)
		addr, err := netip.ParseAddr(l.IPaddr)
		if !ok || err != nil {
			continue
		}
		entry := lease{mac: mac, addr: addr.Unmap().WithZone("")}
		if l.ExpiryTime.Unix() != 0 {
			entry.expiry = l.ExpiryTime
		}
		out = append(out, entry)
	}
	return out
}

// over tells whether the lease has run out.
func (l lease) over(now time.Time) bool { return !l.expiry.IsZero() && l.expiry.Before(now) }

// latest leaves, for each interface and family, the claim whose lease runs out
// last; one that never does counts as last, one that has run out does not count.
// What no lease speaks of stays.
func latest(claims []observe.Claim, leases []lease, now time.Time) []observe.Claim {
	best := map[nicFamily]lease{}
	over := map[lease]bool{}
	for _, l := range leases {
		if l.over(now) {
			over[lease{mac: l.mac, addr: l.addr}] = true
			continue
		}
		of := nicFamily{l.mac, l.addr.Is4()}
		old, there := best[of]
		if !there || !old.expiry.IsZero() && (l.expiry.IsZero() || l.expiry.After(old.expiry)) {
			best[of] = l
		}
	}
	// A lease given since the claims were read is in none of them.
	claimed := map[nicFamily]bool{}
	for _, c := range claims {
		of := familyOf(c)
		claimed[of] = claimed[of] || best[of].addr == c.Addr
	}
	return slices.DeleteFunc(slices.Clone(claims), func(c observe.Claim) bool {
		of := familyOf(c)
		if best[of].addr == c.Addr {
			return false
		}
		return claimed[of] || over[lease{mac: c.MAC, addr: c.Addr}]
	})
}
