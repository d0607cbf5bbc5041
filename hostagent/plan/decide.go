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
		p.busy, p.unseen, p.ofAnotherHost, p.notOurs, p.paused, p.neverGood, p.treeInDoubt, p.unwanted,
		p.absent, p.outdated, p.resized, p.switchedOff, p.poweredOff,
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

// ofAnotherHost: everything here says that this host was known by another id.
// Nothing is made or changed before an operator has said which one counts.
func (p *planner) ofAnotherHost(s *subject) bool {
	if len(p.strange) == 0 {
		return false
	}
	s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "HostIDChanged", message: p.hostIDMessage(),
		next: "wait for: egress-hostagent adopt --all"}
	return true
}

func (p *planner) hostIDMessage() string {
	return fmt.Sprintf("VMs or image tree of this host carry the host id %s, the agent's is %s: if they are this host's, egress-hostagent adopt --all takes on their id; if not, remove them, or name another tree; nothing is changed before",
		some(p.strange), p.Policy.HostID)
}

// notOurs: invariant 4, a domain without our ownership is never changed.
func (p *planner) notOurs(s *subject) bool {
	block := func(reason, format string, a ...any) bool {
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: reason, message: fmt.Sprintf(format, a...)}
		return true
	}
	if s.dom == nil {
		s.mem.Adopt = false
		other, taken := p.byName[domxml.DomainName(s.name)]
		if !taken || s.want == nil {
			return false
		}
		if o := p.Observed.Domains[other].Owner; o != nil && o.Host != p.Policy.HostID {
			return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone; set id in [host] of the config to what it was", domxml.DomainName(s.name), o.Host, p.Policy.HostID)
		}
		if p.buried(other) {
			return block("Conflict", "%s", p.abandonedName(other, domxml.DomainName(s.name)))
		}
		return block("Conflict", "domain %s exists with UUID %s, which is not this proxy's; rename or remove it, or rename the spec", domxml.DomainName(s.name), other)
	}
	switch o := s.dom.Owner; {
	case o == nil && p.recorded(s) != "":
		block(reasonLost, "domain %s carries no ownership metadata (%s) although a record of it exists; it is left alone until: egress-hostagent adopt %s", s.dom.Name, orNone(s.dom.ClaimErr), s.name)
		if s.mem.Adopt && !s.mem.Paused && !p.Memory.PausedAll {
			p.step(s, Action{Kind: Adopt, Instance: p.recorded(s), Reason: "an operator ordered it"})
		}
		return true
	case o == nil:
		return block("Conflict", "domain %s has this proxy's UUID %s but is not ours (%s); it is left alone", s.dom.Name, s.uuid, orNone(s.dom.ClaimErr))
	case o.Host != p.Policy.HostID:
		return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone", s.dom.Name, o.Host, p.Policy.HostID)
	case o.Name != s.name:
		return block("Conflict", "domain %s says it is proxy %s; it is left alone", s.dom.Name, o.Name)
	}
	s.mem.Adopt = false
	return false
}

// newest is the newest complete incarnation that is ours.
func (p *planner) newest(s *subject) *observe.Incarnation {
	for i := len(s.incs) - 1; i >= 0; i-- {
		if p.oursIncarnation(s.incs[i]) && s.incs[i].Overlay {
			return &s.incs[i]
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "no claim"
	}
	return s
}

// recorded is the latest incarnation that a record says is ours.
func (p *planner) recorded(s *subject) (instance string) {
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			instance = inc.Instance
		}
	}
	return instance
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
	if inc := p.newest(s); inc != nil && s.mem.Recreate != inc.Instance && p.waitsWithChange(s) {
		return true
	}
	p.prepare(s, status.PhaseCreating, "the spec is new")
	return true
}

// outdated: the guest has to be made anew on a fresh overlay.
func (p *planner) outdated(s *subject) bool {
	reason := p.whyAnew(s)
	switch {
	case reason == "":
		return false
	case reason == reasonSpec && p.waitsWithChange(s):
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
		if s.running() && s.mem.Down.Failed == "" {
			s.mem.Down = Down{}
		}
	}
	switch cur := s.incarnation(s.instance()); {
	case s.spec() != nil && s.spec().Off:
		p.switchedOff(s)
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

// switchedOff: the spec says power = "off".
func (p *planner) switchedOff(s *subject) bool {
	if !s.spec().Off {
		return false
	}
	if !s.off() {
		p.stop(s, status.PhaseUpdating, "its spec says power = \"off\"")
		return true
	}
	s.mem.Stop, s.mem.Starts = nil, Starts{}
	s.verdict = verdict{phase: status.PhaseOff, synced: status.True, reason: reasonInSync}
	if s.dom.Autostart {
		p.step(s, Action{Kind: Autostart, Reason: "the domain should not start with the host"})
		return true
	}
	p.tidy(s)
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
	p.start(s)
	return true
}

// start starts the domain in its turn: not all of a host's at once, and none for
// the first time that the host has no memory for.
func (p *planner) start(s *subject) {
	if at := p.res.Memory.LastStart.Add(p.Policy.StartInterval); p.Now.Before(at) {
		s.verdict.next = "start, in its turn"
		p.wake(at)
		return
	}
	if need := s.spec().Memory; s.mem.Begun == 0 && !p.fits(s, need) {
		return
	}
	if p.step(s, Action{Kind: Start, Reason: "the domain is powered off", Spec: s.spec(), Instance: s.instance()}) {
		p.res.Memory.LastStart = p.Now
		p.promised += s.spec().Memory
	}
}

// settled: the right domain runs. What is left is tidying up.
func (p *planner) settled(s *subject) {
	s.mem.Stop = nil
	s.verdict = verdict{phase: status.PhaseStarting, synced: status.True, reason: reasonInSync}
	if want := domxml.DomainName(s.name); s.dom.Name != want {
		s.verdict.reason, s.verdict.message = "Renamed", fmt.Sprintf("the domain was renamed from %s to %s; it stays so", want, s.dom.Name)
	}
	if s.dom.Owner.Spec.Version != s.hash().Version {
		s.verdict.reason, s.verdict.message = "Outdated", "it was made by an earlier version of the agent, whose ways it keeps until it is made anew: egress-hostagent recreate "+s.name
	}
	if s.dom.Power == observe.PowerPaused {
		p.resume(s)
		return
	}
	if !s.dom.Persistent {
		if inc := s.incarnation(s.instance()); inc != nil && inc.Record != nil {
			v := s.verdict
			if p.define(s, inc, "the running domain has lost its definition"); s.verdict.reason == string(status.PhaseUpdating) {
				v.next = s.verdict.next // nothing stands in its way
				s.verdict = v
			}
		} else {
			s.verdict.synced, s.verdict.reason = status.False, "RecordMissing"
			s.verdict.message = "the running domain has lost its definition, and the record of incarnation " + s.instance() + ", from which it would be defined again, is missing or unreadable"
			s.verdict.next = "wait for: egress-hostagent recreate " + s.name
		}
		return
	}
	if !s.dom.Autostart {
		p.step(s, Action{Kind: Autostart, On: true, Reason: "the domain should start with the host"})
		return
	}
	p.tidy(s)
}

// tidy brings the records up to date and removes earlier incarnations.
func (p *planner) tidy(s *subject) {
	if cur := s.incarnation(s.instance()); cur != nil && cur.Record != nil && p.oursIncarnation(*cur) &&
		(cur.Record.SkipCleanup != s.spec().SkipCleanup || cur.Record.Origin != s.want.Origin) {
		p.step(s, Action{Kind: Record, Instance: cur.Instance, Spec: s.spec(), Reason: "its record is of an earlier spec"})
		return
	}
	for _, inc := range s.incs {
		if inc.Instance != s.instance() && p.oursIncarnation(inc) {
			p.step(s, Action{Kind: Discard, Instance: inc.Instance, Reason: "an earlier incarnation"})
			return
		}
	}
	for _, r := range s.mem.retries() {
		*r = Retry{}
	}
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
