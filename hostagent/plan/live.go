package plan

import (
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// retuned: only what a running domain takes on changed. Nothing goes down for
// it, so it asks for no place in the roll-out. One that is off is started first: it
// may go on from a managed save, which has the limits of its time.
func (p *planner) retuned(s *subject) bool {
	if sameLive(s.dom.Owner.Spec, s.hash()) {
		return false
	}
	if !p.waitsWithChange(s) {
		s.verdict = verdict{phase: status.PhaseUpdating, synced: status.False, reason: string(status.PhaseUpdating)}
		if s.off() && !s.spec().Off {
			s.verdict.next = string(Tune) + ", once it runs"
		} else if p.step(s, Action{Kind: Tune, Instance: s.instance(), Spec: s.spec(), Reason: "the bandwidth of its NICs changed"}) {
			return true
		}
	}
	p.meanwhile(s)
	return true
}

// recordBehind tells whether a record lacks nothing but what its domain was
// tuned to since.
func recordBehind(rec observe.Record, want spec.Hash) bool {
	h, err := spec.ParseHash(rec.SpecHash)
	return err == nil && h.Live != want.Live && h.SameButLive(want)
}
