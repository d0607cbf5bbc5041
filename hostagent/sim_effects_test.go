package hostagent

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

var (
	errDead      = errors.New("the agent is dead")
	errSimulated = errors.New("no space left on device (simulated)")
	// errNoAnswer is what a call ends with that libvirt does not answer.
	errNoAnswer = &observe.Error{Op: "call", Object: "libvirt", Class: observe.Transient, Err: errors.New("no answer (simulated)")}
)

// callBound is when the real link gives a call up.
const callBound = 30 * time.Second

// exec runs an effect now; its answer comes later, in any order. Some answers
// never come: the call is given up although it had its effect.
func (s *storm) exec(ef Effect) {
	switch ef := ef.(type) {
	case RescanSources:
		s.readSources()
	case Answered:
		s.answered(ef)
	case TakeOnHostID:
		s.say("the agent takes on another host id")
		s.boot()
	case RunAction:
		s.act(ef.Action)
	case SaveState:
		s.sort(ef.Changes)
		s.run(ef, "saved")
	case LookupDomain:
		s.look(ef, "looked at "+s.who(ef.UUID).name, func(err error) Event { return DomainLooked{UUID: ef.UUID, Err: err} })
	case ListDomains:
		s.look(ef, "listed", func(err error) Event { return DomainsListed{Err: err} })
	case ReadClaims:
		s.look(ef, "", func(error) Event { return ClaimsRead{Name: ef.Name, Run: ef.Run, Ask: ef.Ask, Silent: true} })
	default:
		s.run(ef, "")
	}
	if s.dead {
		s.queue, s.late, s.hints = nil, nil, nil
	}
}

// look runs a question to the hypervisor that it may leave without an answer.
func (s *storm) look(ef Effect, what string, lost func(error) Event) {
	if s.one(s.silence) {
		s.say("  no answer to %T", ef)
		s.reads++
		s.late = append(s.late, reply{"gave up", s.now.Add(callBound), s.reads, func() Event { return lost(errNoAnswer) }})
		return
	}
	s.run(ef, what)
}

// run runs an effect that ends in one event.
func (s *storm) run(ef Effect, what string) {
	s.agent.effect(s.t.Context(), ef, func(_ string, work func() Event) { s.answerLater(what, work()) })
}

// answerLater has what was read just now delivered later.
func (s *storm) answerLater(what string, ev Event) {
	s.reads++
	s.late = append(s.late, reply{what, s.now, s.reads, func() Event { return ev }})
}

// act runs an action and looks at what it changed.
func (s *storm) act(a plan.Action) {
	s.say("%s %s %s: %s", a.Kind, a.Name, a.Instance, a.Reason)
	s.ran = append(s.ran, string(a.Kind)+" "+a.Name)
	if s.one(s.meddling) {
		s.meddle(a.UUID)
	}
	if s.race == a.Kind {
		s.race = ""
		s.say("  admin was quicker: starts it")
		s.hv.AdminStart(a.UUID)
	}
	before := s.picture()
	if s.one(s.silence) {
		err := s.agent.p.Executor.Run(s.t.Context(), a)
		s.say("  no answer")
		s.late = append(s.late, reply{"gave up " + string(a.Kind) + " " + a.Name, s.now.Add(callBound), 0, func() Event {
			return s.agent.seenAfter(s.t.Context(), ActionDone{Action: a, Err: cmp.Or[error](errNoAnswer, err)})
		}})
	} else {
		s.agent.effect(s.t.Context(), RunAction{a}, func(_ string, work func() Event) {
			done := work().(ActionDone)
			if done.Err != nil {
				s.say("  failed: %v", done.Err)
			}
			s.answerLater("ended "+string(a.Kind)+" "+a.Name, done)
		})
	}
	s.checkAct(a, before)
	s.guestsReact(a)
}

// sort brings changes into an order that does not differ from run to run.
func (s *storm) sort(changes []state.Change) {
	first := func(c state.Change) int { return slices.Index([]state.Kind{state.Tombstone, state.Host}, c.Kind) }
	slices.SortStableFunc(changes, func(a, b state.Change) int {
		fa, fb := first(a), first(b)
		if fa >= 0 || fb >= 0 {
			return cmp.Or(cmp.Compare(uint(fa), uint(fb)), cmp.Compare(a.Key, b.Key))
		}
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
	})
}

// answered notes what an order came to.
func (s *storm) answered(a Answered) {
	o, sent := s.orders[a.ID]
	if !sent {
		s.blame("an answer to order %d, which was not given", a.ID)
		return
	}
	delete(s.orders, a.ID)
	if a.Err != nil {
		s.say("  %s: %v", o.Order, a.Err)
		return
	}
	s.say("  %s: %s", o.Order, a.Text)
	s.obeyed(o)
}
