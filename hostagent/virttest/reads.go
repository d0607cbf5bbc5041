package virttest

import (
	"context"
	"net/netip"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// ListDomains gives every domain, sorted by name.
func (f *Fake) ListDomains(ctx context.Context) (out []observe.RawDomain, err error) {
	err = f.call(ctx, "ListDomains", what{"list domains of", "fake"}, func() error {
		var hidden []string
		if f.short.times != 0 {
			f.short.times = max(f.short.times-1, Forever)
			hidden = f.short.uuids
		}
		out = make([]observe.RawDomain, 0, len(f.domains))
		for _, d := range f.sorted() {
			if !slices.Contains(hidden, d.uuid) {
				out = append(out, d.raw(f.namespace))
			}
		}
		return nil
	})
	return out, err
}

// LookupDomain gives one domain; observe.ErrNoDomain when there is none.
func (f *Fake) LookupDomain(ctx context.Context, uuid string) (out observe.RawDomain, err error) {
	err = f.onDomain(ctx, "LookupDomain", what{"look up domain", uuid}, func(d *domain) error {
		out = d.raw(f.namespace)
		return nil
	})
	return out, err
}

// DomainXML gives a domain's XML: as it was defined, or what it runs on.
func (f *Fake) DomainXML(ctx context.Context, uuid string, inactive bool) (out string, err error) {
	err = f.onDomain(ctx, "DomainXML", what{"read XML of domain", uuid}, func(d *domain) error {
		def := d.live
		if def == nil || inactive && d.config != nil {
			def = d.config
		}
		out = def.xml()
		return nil
	})
	return out, err
}

// Claims gives what SetClaims set. Without that, interfaces on libvirt networks
// have a lease, which the agent, when it is connected, and ARP confirm.
func (f *Fake) Claims(ctx context.Context, uuid string, src observe.AddressSource) (out []observe.Claim, err error) {
	w := what{"read addresses of domain", uuid}
	err = f.onDomain(ctx, "Claims", w, func(d *domain) error {
		if !slices.Contains(observe.AddressSources[:], src) {
			return w.fail(observe.Permanent, "no such source of addresses: %q", src)
		}
		if d.live == nil {
			return w.fail(observe.Unavailable, "the domain is not running")
		}
		if src == observe.FromAgent && !d.agent {
			return w.fail(observe.Unavailable, "the guest agent is not connected")
		}
		set, ok := d.claims[src]
		if !ok {
			set = f.leased(d)
		}
		for _, claim := range set {
			claim.Source = src
			out = append(out, claim)
		}
		return nil
	})
	return out, err
}

// leased gives the leases of a domain's interfaces, making those that lack.
func (f *Fake) leased(d *domain) []observe.Claim {
	var out []observe.Claim
	for _, n := range d.live.nics {
		prefixes := f.networks[n.source]
		if len(prefixes) == 0 {
			continue
		}
		addr, ok := f.leases[n.mac]
		if !ok || !prefixes[0].Contains(addr) {
			addr = f.nextLease(prefixes[0])
			f.leases[n.mac] = addr
		}
		out = append(out, observe.Claim{MAC: n.mac, Addr: addr})
	}
	return out
}

// nextLease gives an address not leased yet; the first of a subnet is the
// host's.
func (f *Fake) nextLease(p netip.Prefix) netip.Addr {
	taken := map[netip.Addr]bool{}
	for _, a := range f.leases {
		taken[a] = true
	}
	addr := p.Addr().Next().Next()
	for taken[addr] {
		addr = addr.Next()
	}
	return addr
}

// NetworkPrefixes gives the subnets of a network made known by AddNetwork.
func (f *Fake) NetworkPrefixes(ctx context.Context, network string) (out []netip.Prefix, err error) {
	w := what{"read network", network}
	err = f.call(ctx, "NetworkPrefixes", w, func() error {
		prefixes, ok := f.networks[network]
		if !ok {
			return w.fail(observe.Transient, "no such network")
		}
		out = slices.Clone(prefixes)
		return nil
	})
	return out, err
}

// NetworkActive tells whether a network is started.
func (f *Fake) NetworkActive(ctx context.Context, network string) (active bool, err error) {
	w := what{"read network", network}
	err = f.call(ctx, "NetworkActive", w, func() error {
		if _, ok := f.networks[network]; !ok {
			return w.fail(observe.Transient, "no such network")
		}
		active = !f.inactive[network]
		return nil
	})
	return active, err
}

// Version gives made-up versions.
func (f *Fake) Version(ctx context.Context) (lib, hypervisor string, err error) {
	err = f.call(ctx, "Version", what{"read version of", "fake"}, func() error {
		lib, hypervisor = "9.0.0", "Fake 1.0.0"
		return nil
	})
	return lib, hypervisor, err
}

// Capabilities gives a capabilities document that says nothing.
func (f *Fake) Capabilities(ctx context.Context) (out string, err error) {
	err = f.call(ctx, "Capabilities", what{"read capabilities of", "fake"}, func() error {
		out = "<capabilities/>"
		return nil
	})
	return out, err
}
