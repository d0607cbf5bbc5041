package virttest

import (
	"context"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Define defines or redefines a persistent domain; class Clash when name or
// UUID is another's. The Fake has no schema to validate with.
func (f *Fake) Define(ctx context.Context, xml string, _ bool) error {
	w := what{"define domain", nameIn(xml)}
	return f.call(ctx, "Define", w, func() error {
		d, def, err := f.place(w, xml)
		if err != nil {
			return err
		}
		d.config = def
		f.record("Define", d, "defined")
		return nil
	})
}

// CreateTransient starts a domain that leaves no definition.
func (f *Fake) CreateTransient(ctx context.Context, xml string) error {
	w := what{"create transient domain", nameIn(xml)}
	return f.call(ctx, "CreateTransient", w, func() error {
		d, def, err := f.place(w, xml)
		if err != nil {
			return err
		}
		if d.live != nil {
			return w.fail(observe.Transient, "the domain is running already")
		}
		d.live = def
		f.record("CreateTransient", d, "started")
		return nil
	})
}

// place reads XML and finds the domain it is for, or makes it.
func (f *Fake) place(w what, xml string) (*domain, *definition, error) {
	def, err := parse(xml)
	if err != nil {
		return nil, nil, w.fail(observe.Permanent, "its XML: %w", err)
	}
	d, ok := f.domains[def.uuid]
	if ok && d.name() != def.name {
		return nil, nil, w.fail(observe.Clash, "domain %s has the UUID %s", d.name(), d.uuid)
	}
	for _, other := range f.domains {
		if other.uuid != def.uuid && other.name() == def.name {
			return nil, nil, w.fail(observe.Clash, "the domain of that name has the UUID %s", other.uuid)
		}
	}
	if !ok {
		d = &domain{uuid: def.uuid, claims: map[observe.AddressSource][]observe.Claim{}}
		f.domains[def.uuid] = d
	}
	return d, def, nil
}

func nameIn(xml string) string {
	def, err := parse(xml)
	if err != nil {
		return "without a readable name"
	}
	return def.name
}

// Start starts a domain, from its saved state if it has one; one that is active
// already is left as it is.
func (f *Fake) Start(ctx context.Context, uuid string) error {
	return f.onDomain(ctx, "Start", what{"start domain", uuid}, func(d *domain) error {
		if d.live != nil {
			return nil
		}
		for _, n := range d.config.nics {
			if f.inactive[n.source] {
				return what{"start domain", uuid}.fail(observe.Transient, "network '%s' is not active", n.source)
			}
		}
		d.boot()
		f.record("Start", d, "started")
		return nil
	})
}

// Shutdown asks the guest to power off, which it does at once unless it was
// made to ignore that or is paused.
func (f *Fake) Shutdown(ctx context.Context, uuid string) error {
	return f.onDomain(ctx, "Shutdown", what{"shut down domain", uuid}, func(d *domain) error {
		if d.power() == observe.PowerRunning && !d.deaf {
			f.stop(d)
			f.record("Shutdown", d, "shut down")
		}
		return nil
	})
}

// Resume lets a paused domain go on. One whose disk has no room is paused again
// at its next write.
func (f *Fake) Resume(ctx context.Context, uuid string) error {
	w := what{"resume domain", uuid}
	return f.onDomain(ctx, "Resume", w, func(d *domain) error {
		switch d.power() {
		case observe.PowerOff:
			return w.fail(observe.Transient, "the domain is not running")
		case observe.PowerRunning:
			return nil
		}
		d.paused, d.stalled = false, false
		f.record("Resume", d, "resumed")
		if f.full {
			f.pauseFull(d)
		}
		return nil
	})
}

// Destroy takes a domain's power away; one that is off is left as it is.
func (f *Fake) Destroy(ctx context.Context, uuid string) error {
	return f.onDomain(ctx, "Destroy", what{"force off domain", uuid}, func(d *domain) error {
		if d.live != nil {
			f.stop(d)
			f.record("Destroy", d, "destroyed")
		}
		return nil
	})
}

// stop takes the power away; of a transient domain nothing is left.
func (f *Fake) stop(d *domain) {
	if d.config == nil {
		delete(f.domains, d.uuid)
		return // its definition stays readable to whoever holds it
	}
	d.live, d.paused, d.stalled, d.agent = nil, false, false, false
}

// Undefine removes a domain's definition; a running one runs on without. Where
// there is none, it is success.
func (f *Fake) Undefine(ctx context.Context, uuid string) error {
	return f.call(ctx, "Undefine", what{"undefine domain", uuid}, func() error {
		if d, ok := f.domains[uuid]; ok && d.config != nil {
			f.undefine(d)
			f.record("Undefine", d, "undefined")
		}
		return nil
	})
}

func (f *Fake) undefine(d *domain) {
	if d.live == nil {
		delete(f.domains, d.uuid)
		return
	}
	d.config, d.autostart = nil, false
}

// SetAutostart sets whether the domain starts with the host.
func (f *Fake) SetAutostart(ctx context.Context, uuid string, on bool) error {
	w := what{"set autostart of domain", uuid}
	return f.onDomain(ctx, "SetAutostart", w, func(d *domain) error {
		if d.config == nil {
			return w.fail(observe.Transient, "a transient domain has no autostart")
		}
		if d.autostart != on {
			d.autostart = on
			f.changes = append(f.changes, "SetAutostart "+d.uuid) // libvirt has no event for it
		}
		return nil
	})
}

// SetMetadata replaces our element in the domain's configuration and in what
// runs, or removes it when xml is empty.
func (f *Fake) SetMetadata(ctx context.Context, uuid, xml string) error {
	w := what{"set metadata of domain", uuid}
	return f.onDomain(ctx, "SetMetadata", w, func(d *domain) error {
		var e element
		if xml != "" {
			var err error
			if e, err = parseElement(xml, f.namespace); err != nil {
				return w.fail(observe.Permanent, "the metadata's XML: %w", err)
			}
		}
		for _, def := range []**definition{&d.config, &d.live} {
			if *def != nil {
				*def = (*def).withMetadata(f.namespace, e)
			}
		}
		f.record("SetMetadata", d, "metadata changed")
		return nil
	})
}
