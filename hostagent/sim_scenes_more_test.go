package hostagent

import (
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// clockSetBack: what waits does not wait for a time that only a wrong clock had.
func (s *storm) clockSetBack() {
	p := s.someReady()
	if p.Name == "" {
		return
	}
	s.say("scene: the clock is set back while %s waits for its next start", p.Name)
	crashing := s.one(2)
	if s.fragile[p.UUID] = crashing; !crashing {
		s.hv.Fail("Start", 5, &observe.Error{Op: "start", Class: observe.Transient, Err: errSimulated})
	}
	s.hv.GuestPowerOff(p.UUID)
	s.let(20 * time.Second)
	s.now = s.now.Add(-24 * time.Hour)
	s.fragile[p.UUID] = false
	s.hv.Fail("Start", 0, nil)
	s.boot()
	s.let(12 * time.Minute)
	if !s.runs(p.Name) {
		s.blame("the clock was wrong once, and %s still waits: %s", p.Name, brief(s.shown(p.Name)))
	}
}

// halfSaved: a save that fails half way has written something. What is ordered
// before the next try has to undo that.
func (s *storm) halfSaved() {
	a, b := simNames[0], simNames[1]
	if !s.furnish(0) {
		return
	}
	s.say("scene: a save fails half way")
	save, left := s.store.Fail, 2
	s.store.Fail = func(c state.Change) error {
		if left--; left < 0 {
			return errSimulated
		}
		return save(c)
	}
	for _, name := range []string{simNames[2], a, b} { // the first in a save of its own
		s.order(order.Order{Verb: order.Pause, Name: name})
	}
	s.quiet()
	s.store.Fail = save
	for _, name := range []string{simNames[2], a, b} {
		s.order(order.Order{Verb: order.Resume, Name: name})
	}
	s.let(5 * time.Minute)
	for _, name := range simNames {
		if s.kept(name).Paused {
			s.blame("orders: %s is resumed, but not on disk", name)
		}
	}
}

// pausedMeanwhile: a step that was planned before a pause, and has not begun
// when that is answered, is not taken.
func (s *storm) pausedMeanwhile() {
	p := s.someReady()
	if p.Name == "" {
		return
	}
	s.say("scene: %s is paused before its start begins", p.Name)
	s.hv.GuestPowerOff(p.UUID)
	planned := func() int {
		return slices.IndexFunc(s.queue, func(ef Effect) bool {
			a, ok := ef.(RunAction)
			return ok && a.Action.Kind == plan.Start && a.Action.Name == p.Name
		})
	}
	for planned() < 0 && s.oneThing() {
	}
	i := planned()
	if i < 0 {
		return
	}
	start := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	s.order(order.Order{Verb: order.Pause, Name: p.Name})
	s.quiet()
	s.exec(start)
	s.let(time.Minute)
	s.order(order.Order{Verb: order.Resume, Name: p.Name})
	s.let(10 * time.Minute)
	if !s.runs(p.Name) {
		s.blame("%s was paused and resumed, and does not run: %s", p.Name, brief(s.shown(p.Name)))
	}
}

// abandonedPaused: what was ordered of a VM says nothing of the next one of its
// name, also when the agent ends between the tombstone and the rest.
func (s *storm) abandonedPaused() {
	p := s.someReady()
	if p.Name == "" {
		return
	}
	s.say("scene: %s is abandoned while it is paused", p.Name)
	s.order(order.Order{Verb: order.Pause, Name: p.Name})
	s.quiet()
	s.fuse = 1
	s.order(order.Order{Verb: order.Abandon, Name: p.Name})
	s.quiet()
	s.boot()
	s.let(time.Minute)
	if !s.buried(p.UUID) {
		return
	}
	s.freeName(p.Name)
	s.let(10 * time.Minute)
	if uuid := s.agent.core.uuidOf(p.Name); uuid == p.UUID || !s.runs(p.Name) {
		s.blame("%s was abandoned, and no other takes its place: %s", p.Name, brief(s.shown(p.Name)))
	}
}
