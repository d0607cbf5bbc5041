package plan

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// switchedOff: the spec says power = "off".
func (p *planner) switchedOff(s *subject) bool {
	if !s.spec().Off {
		return false
	}
	if p.keepOff(s) {
		p.tidy(s)
	}
	return true
}

// keepOff powers the domain off, for now and for the host's next start, and
// tells whether that is so.
func (p *planner) keepOff(s *subject) bool {
	if !s.off() {
		p.stop(s, status.PhaseUpdating, "its spec says power = \"off\"")
		return false
	}
	s.mem.Stop, s.mem.Starts = nil, Starts{}
	s.verdict = verdict{phase: status.PhaseOff, synced: status.True, reason: reasonInSync}
	if s.dom.Autostart {
		p.step(s, Action{Kind: Autostart, Reason: "the domain should not start with the host"})
		return false
	}
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
		(cur.Record.SkipCleanup != s.spec().SkipCleanup || cur.Record.Origin != s.want.Origin || s.dom.Owner.Spec == s.hash() && recordBehind(*cur.Record, s.hash())) {
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
