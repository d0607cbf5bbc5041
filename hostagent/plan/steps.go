package plan

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// step emits the proxy's next action unless an earlier failure says to wait.
// A permanent failure waits for another spec, except on the way out: deletion
// is retried for ever (invariant 5).
func (p *planner) step(s *subject, a Action) {
	a.Name, a.UUID = s.name, s.uuid
	if s.want != nil {
		a.Hash, a.Origin = s.want.Hash, s.want.Origin
	}
	s.verdict.next = fmt.Sprintf("%s: %s", a.Kind, a.Reason)
	r := s.mem.Retry
	if r.Failures > 0 && a.Hash != r.Hash {
		r, s.mem.Retry = Retry{}, Retry{}
	}
	switch {
	case r.Failures == 0:
		p.act(a)
	case r.Class == observe.Permanent && s.want != nil:
		s.verdict.phase, s.verdict.synced = status.PhaseBlocked, status.False
		s.verdict.reason, s.verdict.message = "ActionRefused", r.Error
		s.verdict.next = "wait for another spec or config"
	case p.Now.Before(r.Next):
		s.verdict.synced, s.verdict.reason, s.verdict.message = status.False, "Retrying", r.Error
		s.verdict.next += fmt.Sprintf(" (try %d at %s)", r.Failures+1, r.Next.UTC().Format("15:04:05Z"))
		p.wake(r.Next)
	default:
		s.verdict.reason, s.verdict.message = "Retrying", r.Error
		p.act(a)
	}
}

// prepare makes a new incarnation, once its base image is in the tree.
func (p *planner) prepare(s *subject, phase status.Phase, reason string) {
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase)}
	base, ok := p.base(s)
	if !ok {
		return
	}
	p.step(s, Action{Kind: Prepare, Reason: reason, Spec: s.spec(), Base: &base})
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
	if !ok {
		base, ok = p.base(s)
		if !ok {
			return
		}
	}
	p.step(s, Action{Kind: Define, Instance: inc.Instance, Domain: name, Reason: reason, Spec: s.spec(), Base: &base})
}

// stop powers the domain off: by request, repeated, because a guest that is
// still booting loses one; by force after the grace.
func (p *planner) stop(s *subject, phase status.Phase, reason string) {
	s.verdict = verdict{phase: phase, synced: status.False, reason: string(phase)}
	if s.mem.Stop == nil {
		s.mem.Stop = &Stop{Since: p.Now}
	}
	st := *s.mem.Stop
	force := st.Since.Add(p.Policy.ShutdownGrace)
	again := st.Asked.Add(p.Policy.ShutdownRepeat)
	switch {
	case !p.Now.Before(force):
		p.step(s, Action{Kind: Destroy, Reason: reason + "; the guest did not power off within " + p.Policy.ShutdownGrace.String()})
	case !p.Now.Before(again) && s.running():
		st.Asked = p.Now
		p.wake(force)
		p.wake(p.Now.Add(p.Policy.ShutdownRepeat))
		p.step(s, Action{Kind: Shutdown, Reason: reason})
	default:
		p.wake(force)
		if s.running() {
			p.wake(again)
		}
		s.verdict.next = "wait for the guest to power off, by force at " + force.UTC().Format("15:04:05Z")
	}
	s.mem.Stop = &st
}
