package virttest

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

var (
	off     = observe.RawDomain{Power: observe.PowerOff, Persistent: true}
	running = observe.RawDomain{Power: observe.PowerRunning, Persistent: true}
)

func (s *suite) life() {
	d := s.domain(1)
	s.define(d)
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.expect(d, running)
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.must(s.hv.Shutdown(s.ctx, d.uuid))
	s.must(s.hv.Destroy(s.ctx, d.uuid)) // a guest may ignore a request to shut down
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.expectAbsent(d)
}

func (s *suite) expectAbsent(d spec) {
	s.Helper()
	_, err := s.hv.LookupDomain(s.ctx, d.uuid)
	if !errors.Is(err, observe.ErrNoDomain) {
		s.Errorf("look-up gave %v, want ErrNoDomain", err)
	}
}

func (s *suite) idempotence() {
	d := s.domain(1)
	s.define(d)
	s.define(d)
	s.must(s.hv.Shutdown(s.ctx, d.uuid))
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.expect(d, running)
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.must(s.hv.Undefine(s.ctx, d.uuid))
}

func (s *suite) paused() {
	d := s.domain(1)
	s.define(d)
	if err := s.hv.Resume(s.ctx, d.uuid); err == nil {
		s.Error("a domain that is off was resumed")
	}
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.must(s.hv.Resume(s.ctx, d.uuid))
	s.hv.AdminPause(d.uuid)
	s.expect(d, observe.RawDomain{Power: observe.PowerPaused, Persistent: true})
	s.must(s.hv.Start(s.ctx, d.uuid)) // it is active: left as it is
	s.expect(d, observe.RawDomain{Power: observe.PowerPaused, Persistent: true})
	s.must(s.hv.Resume(s.ctx, d.uuid))
	s.expect(d, running)
}

func (s *suite) absence() {
	d := s.domain(1)
	_, lookup := s.hv.LookupDomain(s.ctx, d.uuid)
	_, xml := s.hv.DomainXML(s.ctx, d.uuid, true)
	_, claims := s.hv.Claims(s.ctx, d.uuid, observe.FromLease)
	_, dropSaved := s.hv.DropSaved(s.ctx, d.uuid)
	for call, err := range map[string]error{
		"LookupDomain": lookup,
		"DomainXML":    xml,
		"Claims":       claims,
		"DropSaved":    dropSaved,
		"Start":        s.hv.Start(s.ctx, d.uuid),
		"Shutdown":     s.hv.Shutdown(s.ctx, d.uuid),
		"Destroy":      s.hv.Destroy(s.ctx, d.uuid),
		"SetAutostart": s.hv.SetAutostart(s.ctx, d.uuid, true),
		"SetBandwidth": s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 1, 1),
		"SetMetadata":  s.hv.SetMetadata(s.ctx, d.uuid, `<x/>`),
	} {
		var e *observe.Error
		if !errors.Is(err, observe.ErrNoDomain) || !errors.As(err, &e) || e.Object != d.uuid {
			s.Errorf("%s gave %v, want ErrNoDomain in an error that names the UUID", call, err)
		}
	}
	s.must(s.hv.Undefine(s.ctx, d.uuid))
}

// redefine: what runs goes on, on the old definition.
func (s *suite) redefine() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.Start(s.ctx, d.uuid))
	before := s.domainXML(d, false)
	d.memory = 128
	s.define(d)
	s.expect(d, running)
	if got := s.domainXML(d, false); got != before {
		s.Errorf("the running domain changed from\n%s\nto\n%s", before, got)
	}
	if s.domainXML(d, true) == before {
		s.Error("the definition did not change")
	}
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.must(s.hv.Start(s.ctx, d.uuid))
	if s.domainXML(d, false) == before {
		s.Error("the restarted domain runs on the old definition")
	}
}

func (s *suite) domainXML(d spec, inactive bool) string {
	s.Helper()
	text, err := s.hv.DomainXML(s.ctx, d.uuid, inactive)
	s.must(err)
	return text
}

// undefineRunning: the domain runs on, transient, until it stops.
func (s *suite) undefineRunning() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.SetAutostart(s.ctx, d.uuid, true))
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.expect(d, observe.RawDomain{Power: observe.PowerRunning})
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.define(d)
	s.must(s.hv.SetAutostart(s.ctx, d.uuid, false)) // drivers differ in what is left of it
	s.expect(d, running)
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expectAbsent(d)
}

func (s *suite) clash() {
	d, other := s.domain(1), s.domain(2)
	s.define(d)
	sameName, sameUUID := other, other
	sameName.name = d.name
	sameUUID.uuid = d.uuid
	for what, twin := range map[string]spec{"name": sameName, "UUID": sameUUID} {
		if err := s.hv.Define(s.ctx, s.xml(twin), false); observe.ClassOf(err) != observe.Clash {
			s.Errorf("same %s: %v, want class clash", what, err)
		}
	}
	s.expect(d, off)
	s.expectAbsent(other)
}

func (s *suite) brokenXML() {
	for _, text := range []string{"", "<domain", "<domain type='test'><name/></domain>", "<network><name>x</name></network>"} {
		if err := s.hv.Define(s.ctx, text, false); observe.ClassOf(err) != observe.Permanent {
			s.Errorf("defining %q gave %v, want class permanent", text, err)
		}
	}
}

func (s *suite) autostart() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.SetAutostart(s.ctx, d.uuid, true))
	s.must(s.hv.SetAutostart(s.ctx, d.uuid, true))
	want := off
	want.Autostart = true
	s.expect(d, want)
	s.define(d) // a redefine keeps it
	s.expect(d, want)
	s.must(s.hv.SetAutostart(s.ctx, d.uuid, false))
	s.expect(d, off)
}
