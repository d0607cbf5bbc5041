package hostagent

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// sight is what the agent may know of domains by what it was told.
type sight struct {
	seen    bool           // a whole list was told since the link was lost
	lostAt  int            // step
	askedAt int            // step of the list under way
	asked   map[string]int // by UUID: step of the look under way
	acted   map[string]int // by UUID: step at which an action's own look was told
	facts   map[string]fact
}

// fact is the latest that was told of a UUID: that a domain is there, or is
// not, or could not be seen.
type fact struct {
	read   int
	looked int // step at which a look at it alone was told
	unsure bool
	domain *observe.RawDomain // nil: absent
}

func (g *sight) hear(ev Event, read, step int) {
	switch ev := ev.(type) {
	case Hint:
		if ev.Kind == observe.LinkLost {
			g.seen, g.lostAt = false, step
		}
	case DomainsListed:
		g.listed(ev, read, step)
	case DomainLooked: // one that an action or a lost link has overtaken is not to be believed
		if asked := g.asked[ev.UUID]; g.acted[ev.UUID] <= asked && g.lostAt <= asked {
			g.looked(ev, read, step)
		}
	case ActionDone:
		if ev.Look != nil { // it counts whatever was told before
			delete(g.facts, ev.Look.UUID)
			g.acted[ev.Look.UUID] = step
			g.looked(*ev.Look, read, step)
		}
	}
}

func (g *sight) listed(ev DomainsListed, read, step int) {
	switch {
	case ev.Err != nil:
		g.seen, g.lostAt = false, step
		return
	case g.lostAt > g.askedAt:
		return
	}
	g.seen = true
	there := map[string]bool{}
	for _, d := range ev.Domains {
		there[d.UUID] = true
		if g.facts[d.UUID].looked <= g.askedAt {
			g.note(d.UUID, fact{read: read, domain: &d})
		}
	}
	for uuid, f := range g.facts {
		if f.domain != nil && !there[uuid] && f.looked <= g.askedAt {
			g.facts[uuid] = fact{read: read, unsure: true}
		}
	}
}

func (g *sight) looked(ev DomainLooked, read, step int) {
	f := fact{read: read, looked: step, domain: &ev.Domain}
	if ev.Err != nil {
		f.domain, f.unsure = nil, !errors.Is(ev.Err, observe.ErrNoDomain)
	}
	g.note(ev.UUID, f)
}

// note takes a fact that is newer than what is known. A look that failed says
// nothing, so that an older one that did not is better.
func (g *sight) note(uuid string, f fact) {
	switch was := g.facts[uuid]; {
	case was.unsure && f.unsure:
	case was.unsure, was.read <= f.read:
		g.facts[uuid] = f
	}
}

// checkSight: promise 1, a step about a domain is taken only on what is known
// of it, and on the latest of that.
func (s *storm) checkSight(a plan.Action) {
	f, known := s.sight.facts[a.UUID]
	if !s.sight.seen || !known || f.unsure {
		s.blame("promise 1: %s %s, but the domain was not seen (link %v, known %v, unsure %v)", a.Kind, a.Name, s.sight.seen, known, f.unsure)
		return
	}
	power := observe.Power("absent")
	if f.domain != nil {
		power = f.domain.Power
	}
	fits := map[plan.Kind][]observe.Power{
		plan.Start:    {observe.PowerOff},
		plan.Undefine: {observe.PowerOff},
		plan.Shutdown: {observe.PowerRunning},
		plan.Destroy:  {observe.PowerRunning, observe.PowerPaused},
		plan.Resume:   {observe.PowerPaused},
	}
	ok := len(fits[a.Kind]) == 0
	for _, p := range fits[a.Kind] {
		ok = ok || p == power
	}
	if !ok {
		s.blame("promise 1: %s %s, but it was last seen %s", a.Kind, a.Name, power)
	}
}

// claim is what the agent was last told of a domain's claim.
func (s *storm) claim(uuid string) (o observe.Ownership, power observe.Power, ok bool) {
	f := s.sight.facts[uuid]
	if f.domain == nil {
		return o, power, false
	}
	o, err := domxml.DecodeOwnership(f.domain.Metadata)
	return o, f.domain.Power, err == nil
}
