package hostagent

import (
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// given is an order that was given, and what it was about then.
type given struct {
	order.Order
	id       uint64
	proxy    status.Proxy // by that name, as status showed it
	hold     status.Hold  // with that digest
	instance string       // of the proxy, as it is or as it was before its domain was lost
}

// orderGusts are what operators order, of proxies that there are and of others.
func (s *storm) orderGusts() []gust {
	verb := func(v order.Verb) func(string) {
		return func(name string) { s.order(order.Order{Verb: v, Name: name}) }
	}
	all := func(v order.Verb) func(string) {
		return func(string) { s.order(order.Order{Verb: v, All: true}) }
	}
	return []gust{
		{8, verb(order.Recreate)},
		{6, verb(order.Delete)},
		{6, verb(order.Adopt)},
		{3, verb(order.Abandon)},
		{8, verb(order.Pause)},
		{12, verb(order.Resume)},
		{2, all(order.Pause)},
		{6, all(order.Resume)},
		{2, all(order.Adopt)},
		{14, s.release},
		{2, func(string) { s.order(order.Order{Verb: order.Delete, Name: "nobody"}) }},
		{2, func(string) { s.order(order.Order{Verb: "explode", Name: "a"}) }},
	}
}

// release releases what is held, or what was held earlier.
func (s *storm) release(string) {
	for _, h := range s.agent.core.last.Holds {
		s.digests = append(s.digests, h.Digest)
	}
	digest := "0123456789ab"
	if n := len(s.digests); n > 0 {
		if digest = s.digests[n-1]; s.one(2) {
			digest = s.digests[s.rng.IntN(n)]
		}
	}
	s.order(order.Order{Verb: order.Release, Digest: digest})
}

// order gives an order.
func (s *storm) order(o order.Order) {
	if s.dead {
		return
	}
	s.nextID++
	g := given{Order: o, id: s.nextID}
	for _, p := range s.agent.core.last.Proxies {
		if p.Name == o.Name {
			g.proxy = p
		}
	}
	for _, h := range s.agent.core.last.Holds {
		if h.Digest == o.Digest && o.Digest != "" {
			g.hold = h
		}
	}
	s.say("order: %s", o)
	s.orders[s.nextID] = g
	s.mayHappen(g)
	s.step(0, Ordered{ID: s.nextID, Order: o})
	if instance := s.agent.core.memory.Proxies[o.Name].Recreate; o.Verb == order.Recreate && instance != "" {
		g.instance = instance
		s.orders[s.nextID] = g
		s.anew[o.Name] = append(s.anew[o.Name], instance)
	}
}

// mayHappen notes what an order allows, from the moment it is given: it may be
// obeyed although the answer is lost.
func (s *storm) mayHappen(g given) {
	switch g.Verb {
	case order.Resume:
		s.resumed[g.Name] = g.id
		for _, name := range simNames {
			if g.All || name == g.Name {
				delete(s.down, name)
			}
		}
		if g.All {
			s.pausedAll = false
		} else {
			delete(s.paused, g.Name)
		}
	case order.Delete:
		s.ordered[g.Name] = true
	case order.Release:
		for _, name := range g.hold.Proxies {
			s.released[plan.HoldKind(g.hold.Kind)][name] = s.toldHash(name)
			delete(s.held, name)
			delete(s.heldAway, name)
		}
	case order.Recreate:
		s.anew[g.Name] = append(s.anew[g.Name], g.proxy.Instance)
	case order.Abandon:
		s.left[g.proxy.UUID] = true
		s.resumed[g.Name] = g.id // the name is another VM's from now on
		delete(s.down, g.Name)
		delete(s.paused, g.Name)
		delete(s.held, g.Name)
		delete(s.heldAway, g.Name)
	}
}

// obeyed notes what an order that was answered promises from now on. It is on
// disk by then.
func (s *storm) obeyed(g given) {
	k, host := s.kept(g.Name), s.keptHost()
	onDisk := true
	switch g.Verb {
	case order.Pause:
		if g.All {
			s.pausedAll = s.resumed[""] < g.id
			onDisk = host.PausedAll || !s.pausedAll
		} else {
			s.paused[g.Name] = s.resumed[g.Name] < g.id
			onDisk = k.Paused || !s.paused[g.Name] || s.left[g.proxy.UUID]
		}
	case order.Release:
		if g.hold.Digest != g.Digest {
			s.blame("promise 6: %s is obeyed, but nothing like that was shown", g.Order)
		}
	case order.Abandon:
		onDisk = s.buried(g.proxy.UUID)
	case order.Recreate:
		s.mustGo[g.proxy.UUID] = g.instance
	}
	if !onDisk {
		s.blame("orders: %s is answered before it is on disk", g.Order)
	}
}
