package plan

import (
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// outdated: the guest has to be made anew on a fresh overlay.
func (p *planner) outdated(s *subject) bool {
	reason := p.whyAnew(s)
	switch {
	case reason == "":
		return false
	case reason == reasonSpec && (p.waitsWithChange(s) || s.addressTaken()):
		p.meanwhile(s)
		return true
	}
	inc := p.usable(s, s.hash())
	if inc == nil {
		if !p.prepare(s, status.PhaseUpdating, reason) {
			p.meanwhile(s)
		}
		return true
	}
	p.redefine(s, inc, reason)
	return true
}

// redefine takes the domain down, within the budget of the roll-out, and
// defines it on an incarnation. What libvirt refused once is not tried again:
// the domain as it was goes on.
func (p *planner) redefine(s *subject, inc *observe.Incarnation, reason string) {
	_, based := p.Observed.Tree.Bases[inc.Record.Base]
	switch r := s.mem.Retry; {
	case s.dom.Power == observe.PowerPaused && !s.dom.Stalled && s.mem.Recreate == "":
		s.mem.Stop = nil
		s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: "PausedByAdmin",
			message: "the domain is paused, so the change of its spec waits", next: "wait for: virsh resume " + s.dom.Name}
	case !based: // says what is missing, and asks for it where that can be
		p.define(s, inc, reason)
		p.meanwhile(s)
	case r.Kind == Define && r.Failures > 0 && r.Class == observe.Permanent && r.Hash == s.hash():
		s.mem.Stop = nil
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "ActionRefused", message: r.Error,
			next: "wait for another spec or config"}
		p.meanwhile(s)
	case s.off():
		s.mem.Stop = nil
		p.define(s, inc, reason)
	case p.mayTakeDown(s):
		p.stop(s, status.PhaseUpdating, reason)
	default:
		s.mem.Stop = nil
	}
}

const reasonSpec = "the spec changed in what only a new guest can take up"

// whyAnew says why the guest has to be made anew; empty: it has not.
func (p *planner) whyAnew(s *subject) string {
	cur := s.incarnation(s.instance())
	switch {
	case s.mem.Recreate != "" && s.mem.Recreate == s.instance():
		return "an operator ordered it"
	case s.off() && (cur == nil || !cur.Overlay):
		return "the overlay is gone and the domain is powered off"
	case !sameIncarnation(s.dom.Owner.Spec, s.hash()):
		return reasonSpec
	}
	return ""
}

// waitsWithChange gives the proxy its verdict while a change of its spec is not
// to be taken up: what is there stays.
func (p *planner) waitsWithChange(s *subject) bool {
	if s.current() {
		return false
	}
	if p.held(s, HoldChange) {
		return true
	}
	if s.mem.Cause == CauseOther && s.mem.Down.Since.IsZero() && !p.heardAll() {
		s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: "SourceInDoubt",
			message: "the config changed what its spec resolves to; whether that is a mass change can be told once every source was read", next: "wait for the sources"}
		return true
	}
	if !s.spec().Hold {
		return false
	}
	s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: "ChangePending",
		message: "what runs is not what the spec asks, which says on_change = \"hold\"",
		next:    "wait for on_change = \"apply\" in the spec, or for: egress-hostagent recreate " + s.name}
	return true
}

// meanwhile lets what is there run while the new guest can not be made: an
// image that is not to be had is no reason to stay off.
func (p *planner) meanwhile(s *subject) {
	v := s.verdict
	s.verdict.next = ""
	if s.spec() == nil || !s.spec().Off { // it is not being taken down any more
		s.mem.Stop = nil
	}
	switch cur := s.incarnation(s.instance()); {
	case s.spec() != nil && s.spec().Off:
		p.keepOff(s)
	case s.off() && cur != nil && cur.Overlay:
		p.poweredOff(s)
	case s.dom.Stalled:
		p.resume(s)
	case s.running() && s.spec() != nil && s.dom.Persistent && !s.dom.Autostart:
		p.step(s, Action{Kind: Autostart, On: true, Reason: "the domain should start with the host"})
	}
	if s.verdict.next != "" {
		v.next += "; meanwhile " + s.verdict.next
	}
	s.verdict = v
}

// resized: memory or cpus changed; the same incarnation restarts with them.
func (p *planner) resized(s *subject) bool {
	if sameMachine(s.dom.Owner.Spec, s.hash()) {
		return false
	}
	if p.waitsWithChange(s) {
		p.meanwhile(s)
		return true
	}
	inc := s.incarnation(s.instance())
	if inc == nil || inc.Record == nil {
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "RecordMissing",
			message: "the record of incarnation " + s.instance() + " is missing or unreadable", next: "wait for: egress-hostagent recreate " + s.name}
		p.meanwhile(s)
		return true
	}
	p.redefine(s, inc, "memory or cpus changed")
	return true
}
