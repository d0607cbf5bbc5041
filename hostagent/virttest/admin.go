package virttest

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// What an admin, a guest or the host does behind the agent's back. These ignore
// faults and the state of the link, are no Calls and no Changes, and panic for
// a domain that is not there: a mistake in the test.

// AdminDefine defines a domain from XML and gives its UUID.
func (f *Fake) AdminDefine(xml string) (uuid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, def, err := f.place(what{"define domain", nameIn(xml)}, xml)
	if err != nil {
		panic(err)
	}
	d.config = def
	f.changed(d.uuid, "defined")
	return d.uuid
}

// AdminStart starts a domain.
func (f *Fake) AdminStart(uuid string) {
	f.admin(uuid, "started", func(d *domain) {
		if d.live == nil {
			d.boot()
		}
	})
}

// AdminDestroy takes a domain's power away.
func (f *Fake) AdminDestroy(uuid string) { f.admin(uuid, "destroyed", f.stop) }

// GuestPowerOff is a guest that powers off by itself.
func (f *Fake) GuestPowerOff(uuid string) { f.admin(uuid, "shut down", f.stop) }

// AdminUndefine removes a domain's definition.
func (f *Fake) AdminUndefine(uuid string) { f.admin(uuid, "undefined", f.undefine) }

// AdminPause pauses a running domain.
func (f *Fake) AdminPause(uuid string) {
	f.admin(uuid, "suspended", func(d *domain) { d.paused, d.stalled = d.live != nil, false })
}

// AdminResume lets a paused domain go on.
func (f *Fake) AdminResume(uuid string) {
	f.admin(uuid, "resumed", func(d *domain) { d.paused, d.stalled = false, false })
}

// FillDisk makes the domain's next write, and that of any domain resumed until
// FreeDisk, fail for want of space: libvirt pauses it.
func (f *Fake) FillDisk(uuid string) {
	f.admin(uuid, "", func(d *domain) {
		f.full = true
		f.pauseFull(d)
	})
}

// FreeDisk makes room again. Who is paused stays so.
func (f *Fake) FreeDisk() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = false
}

func (f *Fake) pauseFull(d *domain) {
	if d.live != nil {
		d.paused, d.stalled = true, true
		f.changed(d.uuid, "suspended")
	}
}

// AdminNetwork starts or stops a network. Running domains stay on it; none
// starts on one that is stopped.
func (f *Fake) AdminNetwork(name string, active bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inactive[name] = !active
}

// Degrade sets what Stats says does not work; empty: all does.
func (f *Fake) Degrade(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.degraded = text
}

// AdminRename gives a domain another name.
func (f *Fake) AdminRename(uuid, name string) {
	f.admin(uuid, "renamed", func(d *domain) {
		for _, def := range []**definition{&d.config, &d.live} {
			if *def != nil {
				*def = (*def).renamed(name)
			}
		}
	})
}

// AdminSetMetadata sets or, with an empty xml, removes the element of any
// namespace.
func (f *Fake) AdminSetMetadata(uuid, namespace, xml string) {
	f.admin(uuid, "metadata changed", func(d *domain) {
		var e element
		if xml != "" {
			var err error
			if e, err = parseElement(xml, namespace); err != nil {
				panic(err)
			}
		}
		def := &d.config
		if *def == nil {
			def = &d.live
		}
		*def = (*def).withMetadata(namespace, e)
	})
}

// AdminSetAutostart sets autostart; libvirt tells nobody.
func (f *Fake) AdminSetAutostart(uuid string, on bool) {
	f.admin(uuid, "", func(d *domain) { d.autostart = on })
}

// RebootHost is the host going down and up: everything stops, transient domains
// are gone, those with autostart run.
func (f *Fake) RebootHost() {
	f.LoseLink("the host reboots")
	f.mu.Lock()
	for _, d := range f.sorted() {
		f.stop(d)
		if d.autostart {
			d.boot()
		}
	}
	f.mu.Unlock()
	f.RestoreLink()
}

// IgnoreShutdown makes a guest ignore requests to shut down.
func (f *Fake) IgnoreShutdown(uuid string, ignore bool) {
	f.admin(uuid, "", func(d *domain) { d.deaf = ignore })
}

// SetAgent connects or disconnects a domain's guest agent and tells the reader.
// A stop disconnects it too.
func (f *Fake) SetAgent(uuid string, connected bool) {
	f.admin(uuid, "", func(d *domain) {
		d.agent = connected && d.live != nil
		if f.connected {
			f.events.emit(observe.Event{Kind: observe.AgentChanged, UUID: uuid, Detail: fmt.Sprintf("connected: %t", d.agent)})
		}
	})
}

// SetClaims sets what a source answers for a domain, from now on and over
// restarts. No claims is an answer as well.
func (f *Fake) SetClaims(uuid string, src observe.AddressSource, claims ...observe.Claim) {
	f.admin(uuid, "", func(d *domain) { d.claims[src] = claims })
}

// AdminXML gives the document that a domain runs with; ok is false when it does
// not run. No fault of the link touches it.
func (f *Fake) AdminXML(uuid string) (xml string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.domains[uuid]
	if d == nil || d.live == nil {
		return "", false
	}
	return d.live.xml(), true
}

// admin runs effect on a domain and, with a detail, tells the reader.
func (f *Fake) admin(uuid, detail string, effect func(*domain)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.domains[uuid]
	if !ok {
		panic("virttest: no domain " + uuid)
	}
	effect(d)
	if detail != "" {
		f.changed(uuid, detail)
	}
}

// Domain gives a domain without a call: for a test to look.
func (f *Fake) Domain(uuid string) (d observe.RawDomain, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, ok := f.domains[uuid]; ok {
		return found.raw(f.namespace), true
	}
	return d, false
}
