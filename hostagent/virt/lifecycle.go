package virt

import (
	"context"
	"encoding/xml"
	"errors"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Define defines a persistent domain or redefines the one with its name and
// UUID; a running domain goes on as it is. All metadata is replaced, foreign
// namespaces too. Class Clash when name or UUID belongs to another domain.
// validate holds the document to libvirt's schema first, which finds what
// libvirt would silently ignore and costs some milliseconds.
func (c *Conn) Define(ctx context.Context, xml string, validate bool) error {
	var flags libvirt.DomainDefineFlags
	if validate {
		flags = libvirt.DOMAIN_DEFINE_VALIDATE
	}
	_, err := do(ctx, c, writes, what{opDefine, nameIn(xml)}, func(_ context.Context, k *link) (none, error) {
		d, err := k.conn.DomainDefineXMLFlags(xml, flags)
		if err == nil {
			c.hold(1)
			c.free(d)
		}
		return none{}, err
	})
	return err
}

// CreateTransient starts a domain that leaves no definition. Where the driver
// can, the domain ends with the connection that created it: it is meant for
// short checks of the host.
func (c *Conn) CreateTransient(ctx context.Context, xml string) error {
	_, err := do(ctx, c, writes, what{opCreate, nameIn(xml)}, func(_ context.Context, k *link) (none, error) {
		d, err := k.conn.DomainCreateXML(xml, libvirt.DOMAIN_START_AUTODESTROY)
		if refuses(err) {
			d, err = k.conn.DomainCreateXML(xml, 0)
		}
		if err == nil {
			c.hold(1)
			c.free(d)
		}
		return none{}, err
	})
	return err
}

// Start starts a domain; one that is active already is left as it is.
func (c *Conn) Start(ctx context.Context, uuid string) error {
	return c.change(ctx, opStart, uuid, func(_ *link, d *libvirt.Domain) error {
		return unlessPower(d, d.Create(), func(p observe.Power) bool { return p != observe.PowerOff })
	})
}

// Shutdown asks the guest to power off and does not wait for it. It asks by
// ACPI, since a guest agent may not be there.
func (c *Conn) Shutdown(ctx context.Context, uuid string) error {
	return c.change(ctx, opShutdown, uuid, func(_ *link, d *libvirt.Domain) error {
		err := d.ShutdownFlags(libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
		if refuses(err) {
			err = d.ShutdownFlags(libvirt.DOMAIN_SHUTDOWN_DEFAULT)
		}
		return unlessPower(d, err, isOff)
	})
}

// Resume lets a paused domain go on; one that runs is left as it is.
func (c *Conn) Resume(ctx context.Context, uuid string) error {
	return c.change(ctx, opResume, uuid, func(_ *link, d *libvirt.Domain) error {
		return unlessPower(d, d.Resume(), func(p observe.Power) bool { return p == observe.PowerRunning })
	})
}

// Destroy takes a domain's power away; one that is off is left as it is.
func (c *Conn) Destroy(ctx context.Context, uuid string) error {
	return c.change(ctx, opDestroy, uuid, func(_ *link, d *libvirt.Domain) error {
		return unlessPower(d, d.Destroy(), isOff)
	})
}

// SetAutostart sets whether the domain starts with the host.
func (c *Conn) SetAutostart(ctx context.Context, uuid string, on bool) error {
	return c.change(ctx, opAutostart, uuid, func(_ *link, d *libvirt.Domain) error {
		return d.SetAutostart(on)
	})
}

// metadataPrefix is the XML prefix of our metadata element; only its namespace
// means anything.
const metadataPrefix = "egress"

// SetMetadata replaces our element in the domain's configuration and in what
// runs, or removes it when xml is empty. Elements of other namespaces stay.
func (c *Conn) SetMetadata(ctx context.Context, uuid, xml string) error {
	return c.change(ctx, opMetadata, uuid, func(_ *link, d *libvirt.Domain) error {
		impact, err := everywhere(d)
		if err != nil {
			return err
		}
		err = d.SetMetadata(libvirt.DOMAIN_METADATA_ELEMENT, xml, metadataPrefix, c.opt.Namespace, impact)
		if xml == "" && errors.Is(err, libvirt.ERR_NO_DOMAIN_METADATA) {
			return nil
		}
		return err
	})
}

type none struct{}

func (c *Conn) change(ctx context.Context, o op, uuid string, f func(*link, *libvirt.Domain) error) error {
	_, err := onDomain(ctx, c, writes, what{o, uuid}, func(_ context.Context, k *link, d *libvirt.Domain) (none, error) {
		return none{}, f(k, d)
	})
	return err
}

// unlessPower turns err into success when the domain is in the state that was
// wanted. Drivers answer the superfluous call with OPERATION_INVALID or
// INTERNAL_ERROR, which also mean other things: only the state tells.
func unlessPower(d *libvirt.Domain, err error, wanted func(observe.Power) bool) error {
	if !errors.Is(err, libvirt.ERR_OPERATION_INVALID) && !errors.Is(err, libvirt.ERR_INTERNAL_ERROR) {
		return err
	}
	if now, _, readErr := power(d); readErr == nil && wanted(now) {
		return nil
	}
	return err
}

func isOff(p observe.Power) bool { return p == observe.PowerOff }

// refuses tells whether the driver does not take a flag.
func refuses(err error) bool {
	return errors.Is(err, libvirt.ERR_INVALID_ARG) || errors.Is(err, libvirt.ERR_NO_SUPPORT)
}

// nameIn gives the name in a domain's XML, for errors.
func nameIn(text string) string {
	var d struct {
		Name string `xml:"name"`
	}
	if err := xml.Unmarshal([]byte(text), &d); err != nil || d.Name == "" {
		return "without a readable name"
	}
	return d.Name
}
