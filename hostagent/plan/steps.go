package plan

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// step emits the proxy's next action unless an earlier failure of its kind says
// to wait, and tells whether it did. A permanent failure waits for another
// spec, except for powering off and on the way out: deletion is retried for
// ever (invariant 5).
func (p *planner) step(s *subject, a Action) bool {
	a.Name, a.UUID, a.Generation = s.name, s.uuid, p.Generations[s.name]
	if s.want != nil {
		a.Hash, a.Origin = s.want.Hash, s.want.Origin
	}
	s.verdict.next = fmt.Sprintf("%s: %s", a.Kind, a.Reason)
	kept := s.mem.retry(a.Kind)
	if kept.Failures > 0 && a.Hash != kept.Hash {
		*kept = Retry{}
	}
	r := *kept
	// An action that succeeds and changes nothing is not repeated at once.
	if d := s.mem.Did; d.Kind == a.Kind && d.Instance == a.Instance && p.Now.Before(d.At.Add(backoffMin)) {
		p.wake(d.At.Add(backoffMin))
		return false
	}
	switch {
	case r.Failures == 0 || r.Kind != a.Kind:
		p.act(a)
		return true
	case r.Class == observe.Permanent && s.want != nil && a.Kind != Shutdown && a.Kind != Destroy:
		s.verdict.phase, s.verdict.synced = status.PhaseBlocked, status.False
		s.verdict.reason, s.verdict.message = "ActionRefused", r.Error
		s.verdict.next = "wait for another spec or config"
	case p.Now.Before(r.Next):
		s.verdict.synced, s.verdict.reason, s.verdict.message = status.False, "Retrying", r.Error
		s.verdict.next += fmt.Sprintf(" (try %d at %s)", r.Failures+1, r.Next.UTC().Format("15:04:05Z"))
		p.wake(r.Next)
	default:
		s.verdict.synced, s.verdict.reason, s.verdict.message = status.False, "Retrying", r.Error
		p.act(a)
		return true
	}
	return false
}

// prepare makes a new incarnation, once its base image is in the tree and what
// an interrupted try left is away. It tells whether there is a step to take.
func (p *planner) prepare(s *subject, phase status.Phase, reason string) bool {
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase)}
	for _, inc := range s.incs {
		if inc.Instance == s.instance() || !p.oursIncarnation(inc) {
			continue
		}
		if !inc.Overlay {
			return p.step(s, Action{Kind: Discard, Instance: inc.Instance, Reason: "it was not finished"})
		}
		if s.dom != nil { // none of them is for the spec as it is now
			return p.step(s, Action{Kind: Discard, Instance: inc.Instance, Reason: "it is of another spec by now, or not wanted"})
		}
	}
	base, ok := p.base(s)
	return ok && p.roomForOverlay(s) && p.step(s, Action{Kind: Prepare, Reason: reason, Spec: s.spec(), Base: &base})
}

// base finds the spec's base image in the tree, or asks for it.
func (p *planner) base(s *subject) (observe.Base, bool) {
	img := s.spec().Image
	if b, ok := p.Observed.Tree.Bases[img.SHA256]; ok {
		return b, true
	}
	p.images[img.SHA256] = img
	s.verdict.phase, s.verdict.synced = status.PhaseWaiting, status.False
	s.verdict.reason, s.verdict.next = "ImageNotReady", "wait for image "+img.Key
	if pr, ok := p.Observed.Fetching[img.SHA256]; ok {
		s.verdict.message = fmt.Sprintf("image %s is being fetched from %s: %s", img.Key, img.Source, pr)
	} else if r := p.res.Memory.Images[img.SHA256]; r.Failures > 0 {
		s.verdict.reason = "ImageFailed"
		s.verdict.message = fmt.Sprintf("image %s: %s", img.Key, r.Error)
	}
	return observe.Base{}, false
}

// define (re)defines the domain on an incarnation, under its current name.
func (p *planner) define(s *subject, inc *observe.Incarnation, reason string) {
	phase := status.PhaseCreating
	name := domxml.DomainName(s.name)
	if s.dom != nil {
		phase, name = status.PhaseUpdating, s.dom.Name
	}
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase)}
	base, ok := p.Observed.Tree.Bases[inc.Record.Base]
	if !ok && inc.Record.Base == s.spec().Image.SHA256 {
		base, ok = p.base(s)
	} else if !ok {
		s.verdict.phase, s.verdict.reason = status.PhaseBlocked, "BaseMissing"
		s.verdict.message = "base image " + inc.Record.Base + " of its overlay is not in the tree"
	}
	if !ok {
		return
	}
	p.step(s, Action{Kind: Define, Instance: inc.Instance, Domain: name, On: !s.spec().Off, Reason: reason, Spec: s.spec(), Base: &base})
}

// drains tells whether clients are still given time to go elsewhere before the
// domain is powered off. While it is paused it has none; resumed before it was
// asked to power off, it has them again.
func (p *planner) drains(s *subject, st Stop) bool {
	if s.mem.Last == nil || s.mem.Last.Drain == 0 || !s.running() || !st.Asked.IsZero() {
		return false
	}
	end := st.Begun.Add(s.mem.Last.Drain)
	if !p.Now.Before(end) {
		return false
	}
	s.mem.Stop = &Stop{Begun: st.Begun}
	p.wake(end)
	s.verdict.reason = "Draining"
	s.verdict.message = "it is out of all lists; it is powered off at " + end.UTC().Format("15:04:05Z")
	s.verdict.next = "power off"
	return true
}

// stop powers the domain off: by request, repeated, because a guest that is
// still booting loses one; by force after the grace.
func (p *planner) stop(s *subject, phase status.Phase, reason string) {
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase)}
	if s.mem.Stop == nil {
		s.mem.Stop = &Stop{Begun: p.Now}
	}
	st := *s.mem.Stop
	if p.drains(s, st) {
		return
	}
	if st.Since.IsZero() {
		st.Since = p.Now
	}
	force := st.Since.Add(p.Policy.ShutdownGrace)
	again := st.Asked.Add(p.Policy.ShutdownRepeat)
	switch {
	case !p.Now.Before(force):
		p.step(s, Action{Kind: Destroy, Reason: reason + "; the guest did not power off within " + p.Policy.ShutdownGrace.String()})
	case !p.Now.Before(again) && s.running():
		p.wake(force)
		p.wake(p.Now.Add(p.Policy.ShutdownRepeat))
		if p.step(s, Action{Kind: Shutdown, Reason: reason}) {
			st.Asked = p.Now
		}
	default:
		p.wake(force)
		if s.running() {
			p.wake(again)
		}
		s.verdict.next = "wait for the guest to power off, by force at " + force.UTC().Format("15:04:05Z")
	}
	s.mem.Stop = &st
}
