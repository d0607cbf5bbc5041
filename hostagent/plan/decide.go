package plan

import (
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// decide finds the proxy's verdict and, when a step is due, emits it. The
// order of the questions is the order of safety: can it be seen, is it ours,
// may the tree be trusted, is it wanted, is it what is wanted.
func (p *planner) decide(s *subject) {
	steps := []func(*subject) bool{
		p.busy, p.unseen, p.ofAnotherHost, p.notOurs, p.paused, p.neverGood, p.treeInDoubt, p.unwanted,
		p.absent, p.outdated, p.resized, p.retuned, p.switchedOff, p.poweredOff,
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
	if s.name == p.leaving {
		k, under = Disown, true
	}
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
	case s.want != nil && s.current() && (k == Discard || k == Autostart || k == Start || k == Resume || k == Record):
		s.verdict.synced, s.verdict.reason = status.True, reasonInSync
	}
	return true
}

// unseen: invariant 1, what can not be seen is not absent.
func (p *planner) unseen(s *subject) bool {
	if !p.cannotSee(s) {
		return false
	}
	switch why := p.Observed.Unsure[s.uuid]; {
	case !p.Observed.Libvirt.Synced:
		s.verdict = verdict{phase: status.PhaseUnknown, synced: status.Unknown, reason: "CannotSee",
			message: p.Observed.Libvirt.Detail, next: "wait for libvirt"}
	default:
		s.verdict = verdict{phase: status.PhaseUnknown, synced: status.Unknown, reason: "CannotSee",
			message: why, next: "look again"}
	}
	return true
}

func (p *planner) cannotSee(s *subject) bool {
	_, unsure := p.Observed.Unsure[s.uuid]
	return unsure || !p.Observed.Libvirt.Synced
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
	if s.addressTaken() {
		return true
	}
	if inc := p.newest(s); inc != nil && s.mem.Recreate != inc.Instance && p.waitsWithChange(s) {
		return true
	}
	p.prepare(s, status.PhaseCreating, "the spec is new")
	return true
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
