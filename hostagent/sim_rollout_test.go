package hostagent

import (
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// outage is a proxy that is down because the agent changes it.
type outage struct {
	since time.Time
	hash  string
	ready bool // before
	fell  bool // it has gone off since
}

// differs tells whether a guest is not what an entry asks for.
func (s *storm) differs(have spec.Hash, e source.Entry) bool {
	return have.Version == e.Hash.Version && (have.Incarnation != e.Hash.Incarnation || have.Machine != e.Hash.Machine)
}

// checkReason: who runs what its spec asks is not taken down, and the others
// are within the budget.
func (s *storm) checkReason(a plan.Action, sp *spec.Spec) {
	e, _ := s.told(a.Name)
	o, power, claimed := s.claim(a.UUID)
	ordered := claimed && slices.Contains(s.anew[a.Name], o.Instance)
	switch {
	case !claimed:
		s.blame("promise 4: %s %s, whose claim is not known", a.Kind, a.Name)
	case !s.differs(o.Spec, e) && !ordered:
		s.blame("promise 9: %s %s, which runs what its spec asks: %s", a.Kind, a.Name, a.Reason)
	case sp.Hold && !ordered:
		s.blame("on_change: %s %s, whose spec says hold: %s", a.Kind, a.Name, a.Reason)
	}
	if power != observe.PowerRunning || s.down[a.Name] != nil {
		return
	}
	if s.kept(a.Name).Down.Since.IsZero() {
		s.blame("roll-out: %s %s before it is on disk that it goes down", a.Kind, a.Name)
	}
	if most := s.agent.core.set.Policy.MaxUnavailable; len(s.down) >= most {
		s.blame("roll-out: %s %s while %v are down", a.Kind, a.Name, s.downNames())
	}
	for name, o := range s.down {
		if o.ready && s.now.After(o.since.Add(s.agent.core.set.Policy.RolloutWait)) {
			s.blame("roll-out: %s %s although %s did not come back", a.Kind, a.Name, name)
		}
	}
	if !ordered {
		s.checkMassChange(a, e)
	}
	s.down[a.Name] = &outage{since: s.now, hash: e.Hash.String(), ready: s.shown(a.Name).IsReady()}
}

func (s *storm) downNames() (names []string) {
	for name := range s.down {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// watchOutages ends the outages of who is back, or will not be: then it needs
// an operator, or another spec.
func (s *storm) watchOutages() {
	wait := s.agent.core.set.Policy.RolloutWait
	for name, o := range s.down {
		e, listed := s.told(name)
		switch {
		case len(s.snaps) < len(s.configured()): // it is not known what is wanted
		case !listed || e.Spec == nil || e.Spec.Off:
			delete(s.down, name)
		case e.Hash.String() != o.hash:
			o.since, o.hash = s.now, e.Hash.String()
		case s.serves(name):
			delete(s.down, name)
		case !o.ready && !s.now.Before(o.since.Add(wait-time.Minute)): // it counts from before its drain
			delete(s.down, name)
		}
	}
}

// serves tells whether a proxy is seen to serve, and not about to go down.
func (s *storm) serves(name string) bool {
	p := s.shown(name)
	for _, typ := range []string{status.Running, status.Addressed, status.Reachable} {
		if c, _ := p.Condition(typ); c.Status != status.True {
			return false
		}
	}
	_, power, claimed := s.claim(p.UUID)
	return claimed && power == observe.PowerRunning && !p.Leaving
}
