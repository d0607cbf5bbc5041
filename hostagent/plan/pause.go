package plan

import (
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// paused: an operator told the agent to keep its hands off.
func (p *planner) paused(s *subject) bool {
	if !s.mem.Paused && !p.Memory.PausedAll {
		return false
	}
	s.mem.Stop = nil
	s.verdict = verdict{phase: status.PhasePaused, synced: status.False, reason: "PausedByOperator"}
	end := "egress-hostagent resume " + s.name
	if p.Memory.PausedAll {
		end = "egress-hostagent resume --all"
	}
	s.verdict.next = "wait for: " + end
	switch {
	case s.current():
		s.verdict.synced = status.True
	case s.want == nil:
		s.verdict.message = "no source lists it; it is not removed while it is paused"
	default:
		s.verdict.message = "the spec is not what runs; nothing is changed while it is paused"
	}
	return true
}

func (p *planner) actingCondition() status.Condition {
	c := status.Condition{Type: status.Acting, Status: status.True, Reason: "Acting"}
	if p.Memory.PausedAll {
		c.Status, c.Reason = status.False, "PausedByOperator"
		c.Message = "the agent keeps its hands off everything until: egress-hostagent resume --all"
	}
	return c
}
