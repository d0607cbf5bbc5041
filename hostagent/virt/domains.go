package virt

import (
	"context"
	"errors"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// ListDomains gives every domain. It is complete or an error: a domain is left
// out only when libvirt says that it is gone by now.
func (c *Conn) ListDomains(ctx context.Context) ([]observe.RawDomain, error) {
	return do(ctx, c, reads, what{opList, c.opt.URI}, c.list)
}

// LookupDomain gives one domain; observe.ErrNoDomain when there is none.
func (c *Conn) LookupDomain(ctx context.Context, uuid string) (observe.RawDomain, error) {
	return onDomain(ctx, c, reads, what{opLookup, uuid}, func(_ context.Context, _ *link, d *libvirt.Domain) (observe.RawDomain, error) {
		return c.read(d)
	})
}

// DomainXML gives a domain's XML: what it will start with (inactive) or what it
// runs on.
func (c *Conn) DomainXML(ctx context.Context, uuid string, inactive bool) (string, error) {
	return onDomain(ctx, c, reads, what{opXML, uuid}, func(_ context.Context, _ *link, d *libvirt.Domain) (string, error) {
		var flags libvirt.DomainXMLFlags
		if inactive {
			flags = libvirt.DOMAIN_XML_INACTIVE
		}
		return d.GetXMLDesc(flags)
	})
}

// traits is what filtered lists tell about many domains at once, where asking
// each costs a round trip.
type traits struct {
	unusual     map[string]bool // active, and neither running nor shut off
	noAutostart map[string]bool
	transient   map[string]bool
}

// list costs four lists and one round trip a domain, for its metadata.
func (c *Conn) list(ctx context.Context, k *link) ([]observe.RawDomain, error) {
	all, err := k.conn.ListAllDomains(0)
	if err != nil {
		return nil, err
	}
	c.hold(len(all))
	defer c.freeAll(all)
	// After the list: what is in none of the filtered ones is known to be usual.
	t, err := c.traits(k)
	if err != nil {
		return nil, err
	}
	out := make([]observe.RawDomain, 0, len(all))
	for i := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := c.readListed(&all[i], t)
		if errors.Is(err, libvirt.ERR_NO_DOMAIN) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

func (c *Conn) traits(k *link) (t traits, err error) {
	for _, want := range []struct {
		set   *map[string]bool
		flags libvirt.ConnectListAllDomainsFlags
	}{
		{&t.unusual, libvirt.CONNECT_LIST_DOMAINS_PAUSED | libvirt.CONNECT_LIST_DOMAINS_OTHER},
		{&t.noAutostart, libvirt.CONNECT_LIST_DOMAINS_NO_AUTOSTART},
		{&t.transient, libvirt.CONNECT_LIST_DOMAINS_TRANSIENT},
	} {
		if *want.set, err = c.uuids(k, want.flags); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (c *Conn) uuids(k *link, flags libvirt.ConnectListAllDomainsFlags) (map[string]bool, error) {
	some, err := k.conn.ListAllDomains(flags)
	if err != nil {
		return nil, err
	}
	c.hold(len(some))
	defer c.freeAll(some)
	set := make(map[string]bool, len(some))
	for i := range some {
		uuid, err := some[i].GetUUIDString() // local
		if err != nil {
			return nil, err
		}
		set[uuid] = true
	}
	return set, nil
}

func (c *Conn) freeAll(ds []libvirt.Domain) {
	for i := range ds {
		c.free(&ds[i])
	}
}

// identity reads what a handle knows by itself.
func identity(d *libvirt.Domain) (raw observe.RawDomain, active bool, err error) {
	if raw.UUID, err = d.GetUUIDString(); err != nil {
		return raw, false, err
	}
	if raw.Name, err = d.GetName(); err != nil {
		return raw, false, err
	}
	_, err = d.GetID()
	if errors.Is(err, libvirt.ERR_OK) { // no ID and no error: not active
		return raw, false, nil
	}
	return raw, err == nil, err
}

// readListed reads a domain from its handle and the traits. A domain that
// changed since the lists were made is read again in full.
func (c *Conn) readListed(d *libvirt.Domain, t traits) (observe.RawDomain, error) {
	raw, active, err := identity(d)
	if err != nil {
		return raw, err
	}
	raw.Power = observe.PowerOff
	switch {
	case t.unusual[raw.UUID]:
		if raw.Power, raw.Stalled, err = power(d); err != nil {
			return raw, err
		}
	case active:
		raw.Power = observe.PowerRunning
	}
	raw.Persistent = !t.transient[raw.UUID]
	raw.Autostart = raw.Persistent && !t.noAutostart[raw.UUID]
	raw.Metadata, err = c.metadata(d, raw.Persistent)
	if errors.Is(err, libvirt.ERR_OPERATION_INVALID) {
		return c.read(d)
	}
	return raw, err
}

// read asks for everything about one domain.
func (c *Conn) read(d *libvirt.Domain) (observe.RawDomain, error) {
	raw, _, err := identity(d)
	if err != nil {
		return raw, err
	}
	if raw.Power, raw.Stalled, err = power(d); err != nil {
		return raw, err
	}
	if raw.Persistent, err = d.IsPersistent(); err != nil {
		return raw, err
	}
	if raw.Persistent { // a transient domain has no autostart
		if raw.Autostart, err = d.GetAutostart(); err != nil {
			return raw, err
		}
	}
	raw.Metadata, err = c.metadata(d, raw.Persistent)
	return raw, err
}

// power reads a domain's state. It asks libvirtd alone: a list must not depend
// on a QEMU that may hang, least of all on one whose disk failed.
func power(d *libvirt.Domain) (p observe.Power, stalled bool, err error) {
	state, reason, err := d.GetState()
	if err != nil {
		return "", false, err
	}
	switch state {
	case libvirt.DOMAIN_SHUTOFF, libvirt.DOMAIN_CRASHED:
		return observe.PowerOff, false, nil
	case libvirt.DOMAIN_PAUSED:
		switch libvirt.DomainPausedReason(reason) {
		case libvirt.DOMAIN_PAUSED_STARTING_UP: // a moment only, and nobody's doing
			return observe.PowerRunning, false, nil
		case libvirt.DOMAIN_PAUSED_IOERROR:
			return observe.PowerPaused, true, nil
		}
		return observe.PowerPaused, false, nil
	default:
		return observe.PowerRunning, false, nil
	}
}

// metadata reads our element: of the configuration, which a restart keeps, or,
// where there is none, of the running domain.
func (c *Conn) metadata(d *libvirt.Domain, persistent bool) (string, error) {
	impact := libvirt.DOMAIN_AFFECT_LIVE
	if persistent {
		impact = libvirt.DOMAIN_AFFECT_CONFIG
	}
	text, err := d.GetMetadata(libvirt.DOMAIN_METADATA_ELEMENT, c.opt.Namespace, impact)
	if errors.Is(err, libvirt.ERR_NO_DOMAIN_METADATA) {
		return "", nil
	}
	return text, err
}
