package virt

import (
	"context"

	"libvirt.org/go/libvirt"
)

// SetBandwidth limits the traffic of the domain's interface with that MAC, in
// its configuration and in what runs: inbound is to the guest, outbound from it,
// in thousands of bytes per second; 0 lifts a limit. Peak and burst are libvirt's
// to choose.
func (c *Conn) SetBandwidth(ctx context.Context, uuid, mac string, inbound, outbound uint) error {
	return c.change(ctx, opBandwidth, uuid, func(_ *link, d *libvirt.Domain) error {
		impact, err := everywhere(d)
		if err != nil {
			return err
		}
		set := func(impact libvirt.DomainModificationImpact) error {
			return d.SetInterfaceParameters(mac, &libvirt.DomainInterfaceParameters{
				BandwidthInAverageSet: true, BandwidthInAverage: inbound,
				BandwidthOutAverageSet: true, BandwidthOutAverage: outbound,
			}, impact)
		}
		if err = set(impact); impact != both || !refuses(err) {
			return err
		}
		// The test driver takes one at a time.
		if err := set(libvirt.DOMAIN_AFFECT_LIVE); err != nil {
			return err
		}
		return set(libvirt.DOMAIN_AFFECT_CONFIG)
	})
}

const both = libvirt.DOMAIN_AFFECT_LIVE | libvirt.DOMAIN_AFFECT_CONFIG

// everywhere is what there is of a domain: its configuration, what runs, or
// both.
func everywhere(d *libvirt.Domain) (libvirt.DomainModificationImpact, error) {
	persistent, err := d.IsPersistent()
	if err != nil {
		return 0, err
	}
	active, err := d.IsActive()
	if err != nil {
		return 0, err
	}
	var impact libvirt.DomainModificationImpact
	if persistent {
		impact |= libvirt.DOMAIN_AFFECT_CONFIG
	}
	if active {
		impact |= libvirt.DOMAIN_AFFECT_LIVE
	}
	return impact, nil
}
