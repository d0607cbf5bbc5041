package hostagent

import (
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// epilogue checks what only shows when nothing else happens.
func (s *storm) epilogue() {
	s.nextCfg = s.cfg
	s.restartIsNothing()
	if s.one(3) {
		s.crashLoop()
	}
	if s.one(3) {
		s.brokenSpec()
		return
	}
	if s.one(2) {
		s.scene()
	}
}

// restartIsNothing: promise 10, a restart of the agent alone leads to no action
// and to no write.
func (s *storm) restartIsNothing() {
	ran, save := len(s.ran), s.store.Fail
	s.store.Fail = func(c state.Change) error {
		s.blame("promise 10: a restart wrote %s %s: %s, where there was %s", c.Kind, c.Key, c.Body, s.disk[c.Kind][c.Key])
		return save(c)
	}
	s.boot()
	s.let(5 * time.Minute)
	if len(s.ran) != ran {
		s.blame("promise 10: a restart led to %v", s.ran[ran:])
	}
	s.store.Fail = save
}

// someReady is a proxy that is ready, with all its files; empty when none is.
func (s *storm) someReady() (p status.Proxy) {
	var all []status.Proxy
	for _, p := range s.agent.core.last.Proxies {
		if _, listed := s.desks[0].docs[p.Name]; listed && p.Phase == status.PhaseReady && s.intact(p.Name, p.Instance) {
			all = append(all, p)
		}
	}
	if len(all) > 0 {
		p = all[s.rng.IntN(len(all))]
	}
	return p
}

// crashLoop: a guest that goes off right after each start is started ever less
// often, whatever becomes of the agent.
func (s *storm) crashLoop() {
	p := s.someReady()
	if p.Name == "" {
		return
	}
	s.say("epilogue: %s is in a crash loop", p.Name)
	s.fragile[p.UUID] = true
	s.hv.GuestPowerOff(p.UUID)
	ran, starts := len(s.ran), 0
	for range 7 {
		s.let(3 * time.Minute)
		s.boot()
	}
	for _, a := range s.ran[ran:] {
		if a == "start "+p.Name {
			starts++
		}
	}
	if starts < 3 || starts > 14 {
		s.blame("crash loop: %d starts of %s in 21 minutes", starts, p.Name)
	}
	s.fragile[p.UUID] = false
	s.let(6 * time.Minute)
}

// brokenSpec: promise 3, a spec that is broken now is run as it was when it was
// good, over restarts too.
func (s *storm) brokenSpec() {
	p := s.someReady()
	d, there := s.desks[0].docs[p.Name]
	if !there || p.Origin != s.desks[0].origin { // it has no good version there
		return
	}
	s.say("epilogue: the spec of %s is broken", p.Name)
	d.broken = true
	s.desks[0].docs[p.Name] = d
	s.desks[0].inDoubt = s.one(2)
	s.boot()
	s.let(time.Minute)
	s.hv.AdminDestroy(p.UUID)
	s.hv.AdminUndefine(p.UUID)
	s.let(3 * time.Minute)
	if now, _ := s.hv.Domain(p.UUID); now.Power != observe.PowerRunning || s.shown(p.Name).Instance != p.Instance {
		s.blame("promise 3: %s does not run on, with its spec broken: %s", p.Name, brief(s.shown(p.Name)))
	}
}
