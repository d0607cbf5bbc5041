package plan

import (
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// decide finds the proxy's verdict and, when a step is due, emits it. The
// order of the questions is the order of safety: can it be seen, is it ours,
// may the tree be trusted, is it wanted, is it what is wanted.
func (p *planner) decide(s *subject) {
	steps := []func(*subject) bool{
		p.busy, p.unseen, p.notOurs, p.neverGood, p.treeInDoubt, p.unwanted,
		p.absent, p.outdated, p.resized, p.poweredOff,
	}
	for _, step := range steps {
		if step(s) {
			return
		}
	}
	p.settled(s)
}

// busy: an action is under way; its result is awaited.
func (p *planner) busy(s *subject) bool {
	k, under := p.Observed.Busy[s.name]
	if !under {
		return false
	}
	phase := map[Kind]status.Phase{
		Prepare: status.PhaseCreating, Define: status.PhaseCreating, Start: status.PhaseStarting,
		Undefine: status.PhaseRemoving, Discard: status.PhaseRemoving,
	}[k]
	if phase == "" {
		phase = status.PhaseUpdating
	}
	if s.want == nil {
		phase = status.PhaseRemoving
	}
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase), next: string(k)}
	switch r := s.mem.retry(k); {
	case r.Failures > 0 && r.Kind == k:
		s.verdict.reason, s.verdict.message = "Retrying", r.Error
	case s.want != nil && (k == Discard || k == Autostart || k == Start || k == Resume):
		s.verdict.synced, s.verdict.reason = status.True, reasonInSync
	}
	return true
}

// unseen: invariant 1, what can not be seen is not absent.
func (p *planner) unseen(s *subject) bool {
	switch why, unsure := p.Observed.Unsure[s.uuid]; {
	case !p.Observed.Libvirt.Synced:
		s.verdict = verdict{phase: status.PhaseUnknown, synced: status.Unknown, reason: "CannotSee",
			message: p.Observed.Libvirt.Detail, next: "wait for libvirt"}
	case unsure:
		s.verdict = verdict{phase: status.PhaseUnknown, synced: status.Unknown, reason: "CannotSee",
			message: why, next: "look again"}
	default:
		return false
	}
	return true
}

// notOurs: invariant 4, a domain without our ownership is never changed.
func (p *planner) notOurs(s *subject) bool {
	block := func(reason, format string, a ...any) bool {
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: reason, message: fmt.Sprintf(format, a...)}
		return true
	}
	if s.dom == nil {
		other, taken := p.byName[domxml.DomainName(s.name)]
		if !taken || s.want == nil {
			return false
		}
		if o := p.Observed.Domains[other].Owner; o != nil && o.Host != p.Policy.HostID {
			return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone; set id in [host] of the config to what it was", domxml.DomainName(s.name), o.Host, p.Policy.HostID)
		}
		return block("Conflict", "domain %s exists with UUID %s, which is not this proxy's; rename or remove it, or rename the spec", domxml.DomainName(s.name), other)
	}
	switch o := s.dom.Owner; {
	case o == nil && p.recorded(s):
		return block("MetadataLost", "domain %s carries no ownership metadata (%s) although a record of it exists; it is left alone", s.dom.Name, orNone(s.dom.ClaimErr))
	case o == nil:
		return block("Conflict", "domain %s has this proxy's UUID %s but is not ours (%s); it is left alone", s.dom.Name, s.uuid, orNone(s.dom.ClaimErr))
	case o.Host != p.Policy.HostID:
		return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone", s.dom.Name, o.Host, p.Policy.HostID)
	case o.Name != s.name:
		return block("Conflict", "domain %s says it is proxy %s; it is left alone", s.dom.Name, o.Name)
	}
	return false
}

func orNone(s string) string {
	if s == "" {
		return "no claim"
	}
	return s
}

func (p *planner) recorded(s *subject) bool {
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			return true
		}
	}
	return false
}

// treeInDoubt: invariant 16, no decision about a disk without the marker.
func (p *planner) treeInDoubt(s *subject) bool {
	if p.Observed.Tree.Marker == observe.MarkerOK {
		return false
	}
	s.verdict = verdict{phase: status.PhaseBlocked, synced: status.Unknown, reason: reasonTree,
		message: p.Observed.Tree.Detail, next: "wait for the image tree"}
	return true
}

// neverGood: the proxy is listed but has no spec that could be used; whatever
// runs is left running.
func (p *planner) neverGood(s *subject) bool {
	if s.want == nil || s.want.Spec != nil {
		return false
	}
	s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "SpecInvalid",
		message: strings.Join(s.want.Problems, "\n"), next: "wait for the spec to be corrected"}
	if s.dom != nil && s.dom.Stalled {
		p.meanwhile(s)
	}
	return true
}

// absent: define the domain, on a prepared incarnation where there is one.
func (p *planner) absent(s *subject) bool {
	if s.dom != nil {
		return false
	}
	s.mem.Stop = nil
	if inc := p.usable(s, s.hash()); inc != nil {
		p.define(s, inc, "no domain is defined for this incarnation")
		return true
	}
	p.prepare(s, status.PhaseCreating, "the spec is new")
	return true
}

// outdated: the guest has to be made anew on a fresh overlay.
func (p *planner) outdated(s *subject) bool {
	reason := "the spec changed in what only a new guest can take up"
	if sameIncarnation(s.dom.Owner.Spec, s.hash()) {
		cur := s.incarnation(s.instance())
		if !s.off() || cur != nil && cur.Overlay {
			return false
		}
		reason = "the overlay is gone and the domain is powered off"
	}
	inc := p.usable(s, s.hash())
	if inc == nil {
		if !p.prepare(s, status.PhaseUpdating, reason) {
			p.meanwhile(s)
		}
		return true
	}
	if !s.off() {
		p.stop(s, status.PhaseUpdating, reason)
		return true
	}
	s.mem.Stop = nil
	p.define(s, inc, reason)
	return true
}

// meanwhile lets what is there run while the new guest can not be made: an
// image that is not to be had is no reason to stay off.
func (p *planner) meanwhile(s *subject) {
	v := s.verdict
	s.verdict.next = ""
	switch cur := s.incarnation(s.instance()); {
	case s.off() && cur != nil && cur.Overlay:
		p.poweredOff(s)
	case s.dom.Stalled:
		p.resume(s)
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
	reason := "memory or cpus changed"
	if !s.off() {
		p.stop(s, status.PhaseUpdating, reason)
		return true
	}
	inc := s.incarnation(s.instance())
	if inc == nil || inc.Record == nil {
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "RecordMissing",
			message: "the record of incarnation " + s.instance() + " is missing or unreadable"}
		return true
	}
	s.mem.Stop = nil
	p.define(s, inc, reason)
	return true
}

// poweredOff: the right domain, not running.
func (p *planner) poweredOff(s *subject) bool {
	if !s.off() {
		return false
	}
	s.mem.Stop = nil
	s.verdict = verdict{phase: status.PhaseStarting, synced: status.True, reason: reasonInSync, next: string(Start)}
	if n := s.mem.Starts.Short; n > 0 {
		at := s.mem.Starts.Last.Add(backoff(n+3, s.name))
		if p.Now.Before(at) {
			s.verdict.phase, s.verdict.reason = status.PhaseDegraded, "CrashLoop"
			s.verdict.message = fmt.Sprintf("went off %d times in a row soon after its start; next start at %s", n, at.UTC().Format("15:04:05Z"))
			p.wake(at)
			return true
		}
	}
	p.step(s, Action{Kind: Start, Reason: "the domain is powered off", Spec: s.spec(), Instance: s.instance()})
	return true
}

// settled: the right domain runs. What is left is tidying up.
func (p *planner) settled(s *subject) {
	s.mem.Stop = nil
	s.verdict = verdict{phase: status.PhaseStarting, synced: status.True, reason: reasonInSync}
	if want := domxml.DomainName(s.name); s.dom.Name != want {
		s.verdict.reason, s.verdict.message = "Renamed", fmt.Sprintf("the domain was renamed from %s to %s; it stays so", want, s.dom.Name)
	}
	if s.dom.Power == observe.PowerPaused {
		p.resume(s)
		return
	}
	if !s.dom.Persistent {
		if inc := s.incarnation(s.instance()); inc != nil && inc.Record != nil {
			v := s.verdict
			p.define(s, inc, "the running domain has lost its definition")
			v.next = s.verdict.next
			s.verdict = v
		}
		return
	}
	if !s.dom.Autostart {
		p.step(s, Action{Kind: Autostart, Reason: "the domain should start with the host"})
		return
	}
	for _, inc := range s.incs {
		if inc.Instance != s.instance() && p.oursIncarnation(inc) {
			p.step(s, Action{Kind: Discard, Instance: inc.Instance, Reason: "an earlier incarnation"})
			return
		}
	}
	s.mem.Retry, s.mem.Running = Retry{}, Retry{}
}

// brokenSpec says of a proxy that follows its last good spec that the present
// one is broken.
func (s *subject) brokenSpec() {
	if s.want == nil || len(s.want.Problems) == 0 || s.want.Spec == nil || s.verdict.synced != status.True {
		return
	}
	s.verdict.synced, s.verdict.reason = status.False, "SpecInvalid"
	s.verdict.message = "the last good spec runs; " + strings.Join(s.want.Problems, "\n")
	if s.verdict.next == "" {
		s.verdict.next = "wait for the spec to be corrected"
	}
}
