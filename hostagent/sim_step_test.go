package hostagent

import (
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// queueBound is how many effects a core may want at once: some for each name and
// some for the host.
const queueBound = 120

// checkStep checks what the core wants after a step.
func (s *storm) checkStep(effects []Effect) {
	if w := s.agent.core.Wake(); w.Before(s.stepped) {
		s.blame("promise 15: the wake-up at %s is before the step at %s", w, s.stepped)
	}
	if n := len(s.queue) + len(s.late); n > queueBound {
		s.blame("promise 15: %d effects at once", n)
	}
	s.checkAddresses()
	s.watchLeaving()
	s.watchOutages()
	s.watchHolds()
	for _, ef := range effects {
		switch ef := ef.(type) {
		case ListDomains:
			s.sight.askedAt = s.steps
		case LookupDomain:
			s.sight.asked[ef.UUID] = s.steps
		case RunAction:
			s.checkAction(ef.Action)
		}
	}
}

// checkAction checks a step that is about to be taken.
func (s *storm) checkAction(a plan.Action) {
	host := s.agent.core.set.Policy.HostID
	switch {
	case host != testHost && a.Kind != plan.Disown:
		s.blame("promise 4: %s %s, by a host of another id", a.Kind, a.Name)
	case s.pausedAll:
		s.blame("paused: %s %s, although all is paused", a.Kind, a.Name)
	case a.Kind == plan.Disown:
		if !s.buried(a.UUID) {
			s.blame("promise 5: %s %s before its tombstone is on disk", a.Kind, a.Name)
		}
	case a.Name == "":
	default:
		s.checkNamed(a)
	}
}

// checkNamed checks a step about a proxy that is not abandoned.
func (s *storm) checkNamed(a plan.Action) {
	s.checkSight(a)
	s.checkClaim(a)
	if s.paused[a.Name] {
		s.blame("paused: %s %s", a.Kind, a.Name)
	}
	if s.buried(a.UUID) {
		s.blame("promise 5: %s %s, which is abandoned", a.Kind, a.Name)
	}
	if s.agent.core.obs.Tree.Marker != observe.MarkerOK {
		s.blame("promise 16: %s %s without the tree's marker", a.Kind, a.Name)
	}
	e, listed := s.told(a.Name)
	switch {
	case !listed:
		s.checkRemoval(a)
	case e.Spec == nil:
		if a.Kind != plan.Resume {
			s.blame("promise 3: %s %s, whose spec was never good", a.Kind, a.Name)
		}
	case a.Kind == plan.Undefine:
		s.blame("promise 2: %s %s, which is listed", a.Kind, a.Name)
	default:
		s.checkKept(a, e.Spec)
	}
}

// checkClaim: promise 4, a step about a domain is taken only when it is ours.
func (s *storm) checkClaim(a plan.Action) {
	who := s.who(a.UUID)
	f := s.sight.facts[a.UUID]
	o, _, claimed := s.claim(a.UUID)
	ours := claimed && o.Host == testHost && o.Name == who.name && o.Generation == who.generation
	if f.domain != nil && ours == (a.Kind == plan.Adopt) {
		s.blame("promise 4: %s %s, whose domain says it is %+v's", a.Kind, a.Name, o)
	}
}

// checkKept checks a step about a proxy that is to be there.
func (s *storm) checkKept(a plan.Action, sp *spec.Spec) {
	switch a.Kind {
	case plan.Shutdown, plan.Destroy:
		s.checkDrained(a)
		if !sp.Off {
			s.checkReason(a, sp)
		}
	case plan.Start:
		s.checkStart(a, sp)
	case plan.Prepare:
		if t := s.agent.core.obs.Tree; t.Free < uint64(s.agent.core.set.Policy.DiskReserve) {
			s.blame("capacity: %s %s with %d MiB free", a.Kind, a.Name, t.Free>>20)
		}
	}
}

func (s *storm) checkStart(a plan.Action, sp *spec.Spec) {
	if sp.Off {
		s.blame("power off: %s %s, which is to be off", a.Kind, a.Name)
	}
	if !s.lastGo.IsZero() && s.now.Before(s.lastGo.Add(s.startInterval)) {
		s.blame("stagger: %s %s %s after another", a.Kind, a.Name, s.now.Sub(s.lastGo))
	}
	s.lastGo = s.now
	m, reserve := s.agent.core.obs.Memory, uint64(s.agent.core.set.Policy.MemoryReserve)
	if !m.At.IsZero() && !s.started[a.Name] && uint64(sp.Memory)+reserve > m.Available {
		s.blame("capacity: first %s %s with %d MiB available", a.Kind, a.Name, m.Available>>20)
	}
}

// watchLeaving notes who leaves, and who is not remembered any more.
func (s *storm) watchLeaving() {
	for _, name := range simNames {
		if p := s.shown(name); !p.Leaving {
			delete(s.leaving, name)
			delete(s.asked, name)
		} else if _, already := s.leaving[name]; !already {
			s.leaving[name] = s.now
		}
		if _, power, _ := s.claim(s.agent.core.uuidOf(name)); power == observe.PowerRunning {
			s.started[name] = true // by whomever: it is not one more for the host
		}
		if _, remembered := s.agent.core.memory.Proxies[name]; !remembered {
			delete(s.started, name)
		}
	}
}

// checkDrained: clients have had the time to go elsewhere that the spec gives
// them.
func (s *storm) checkDrained(a plan.Action) {
	_, power, _ := s.claim(a.UUID)
	last := s.agent.core.memory.Proxies[a.Name].Last
	if !s.asked[a.Name] && power == observe.PowerRunning && last != nil && s.now.Before(s.leaving[a.Name].Add(last.Drain)) {
		s.blame("drain: %s %s %s after it was shown as leaving", a.Kind, a.Name, s.now.Sub(s.leaving[a.Name]))
	}
	s.asked[a.Name] = true
}

// checkAddresses: promise 17, no two proxies answer at one address, none at the
// host's.
func (s *storm) checkAddresses() {
	at := map[string]string{}
	for _, p := range s.agent.core.last.Proxies {
		if p.URL == "" {
			continue
		}
		if other, taken := at[p.URL]; taken {
			s.blame("promise 17: %s and %s both at %s", p.Name, other, p.URL)
		}
		at[p.URL] = p.Name
		if host, _ := s.Addresses(); slices.Contains(host, p.Addresses[0].Address) {
			s.blame("promise 17: %s at the host's own %s", p.Name, p.URL)
		}
	}
}
