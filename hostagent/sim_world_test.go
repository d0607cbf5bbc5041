package hostagent

import (
	"context"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// world is what is around the agent.
type world struct {
	desks        []*desk   // the directory, the manifest
	cfg, nextCfg simConfig // of this agent, and of the next
	linkDown     bool
	fragile      map[string]bool   // UUIDs of guests that go off soon after each start
	manifests    int               // one in so many specs is in the manifest
	meddling     int               // one in so many actions finds that an admin was quicker
	race         plan.Kind         // an admin starts the domain right before the next step of that kind
	silence      int               // one in so many calls gets no answer
	budget       int               // of roll-outs
	foreign      int               // domains of others that were made so far
	clones       map[string]string // copies of ours: XML by UUID
}

// faultsLeft are how many changes are still to fail.
type faultsLeft struct{ tree, state int }

func (f *faultsLeft) take(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

func (s *storm) newWorld(seed uint64) {
	s.world = world{
		desks: []*desk{
			{origin: source.OriginDir, docs: map[string]doc{}, aside: map[string]doc{}},
			{origin: source.OriginManifest, docs: map[string]doc{}, aside: map[string]doc{}},
		},
		nextCfg: simConfig{memory: 256},
		fragile: map[string]bool{}, clones: map[string]string{}, silence: 1 << 30, meddling: 1 << 30, manifests: 2 + s.rng.IntN(5),
		budget: 1 + s.rng.IntN(2),
	}
	s.desks[1].pub = newPublisher(seed, s.desks[1])
	s.memory = 8 << 30
}

// configured are the sources that the agent has.
func (s *storm) configured() []*desk {
	if s.cfg.one {
		return s.desks[:1]
	}
	return s.desks
}

// configure makes parts those of an agent in a storm: it waits for less.
func (s *storm) configure(p *Parts) {
	p.Settings.Origins = nil
	for _, k := range s.configured() {
		p.Settings.Origins = append(p.Settings.Origins, k.origin)
	}
	img := simImages[s.cfg.image]
	p.Settings.Images = map[string]spec.Image{img.Key: img}
	pol := &p.Settings.Policy
	p.Settings.ProbeInterval, pol.ProbeStale = 2*time.Minute, 5*time.Minute
	pol.MemoryReserve, pol.RolloutWait, pol.ImageGrace = 1<<30, 5*time.Minute, 10*time.Minute
	pol.HostID, pol.MaxUnavailable = s.hostID, s.budget
	if id := p.Kept.Memory.HostID; id != "" {
		pol.HostID = id
	}
	p.Executor.HostID, p.Prober = pol.HostID, s
	switch ours := pol.HostID == testHost; {
	case ours && s.tree.marker == observe.MarkerForeign:
		s.tree.marker, s.tree.host = observe.MarkerOK, ""
	case !ours && s.tree.marker == observe.MarkerOK:
		s.tree.marker, s.tree.host = observe.MarkerForeign, testHost
	}
}

// Probe implements Prober: who runs answers, if they do at all.
func (s *storm) Probe(_ context.Context, t probe.Target) probe.Result {
	if !s.probeOK {
		return probe.Result{Reason: "Simulated"}
	}
	return probe.Result{OK: true}
}

// gust is something that happens, to a proxy of that name if to one.
type gust struct {
	weight int
	blow   func(name string)
}

// weather makes the storm's own mix of what happens: each has its climate, so
// that some see things that would otherwise drown.
func (s *storm) weather() func() {
	groups := [][]gust{
		s.sourceGusts(), s.adminGusts(), s.guestGusts(), s.treeGusts(), s.orderGusts(), s.faultGusts(), s.hostGusts(),
	}
	all := []gust{{380, func(string) { s.work(1 + s.rng.IntN(12)) }}, {90, s.time}}
	for _, g := range groups {
		scale := []int{0, 1, 2, 2, 2, 5}[s.rng.IntN(6)]
		if &g[0] == &groups[0][0] {
			scale = max(scale, 1)
		}
		for _, gu := range g {
			gu.weight = gu.weight * scale / 2
			all = append(all, gu)
		}
	}
	if s.one(2) {
		s.silence = 20 + s.rng.IntN(60)
	}
	if s.one(2) {
		s.meddling = 10 + s.rng.IntN(60)
	}
	names := simNames[:2+s.rng.IntN(len(simNames)-1)]
	sum := 0
	for _, gu := range all {
		sum += gu.weight
	}
	return func() {
		n := s.rng.IntN(sum)
		i := slices.IndexFunc(all, func(gu gust) bool { n -= gu.weight; return n < 0 })
		all[i].blow(names[s.rng.IntN(len(names))])
		if s.dead && s.one(3) {
			s.boot()
		}
	}
}

// time passes: seconds as a rule, now and then minutes.
func (s *storm) time(string) {
	d := time.Duration(s.rng.IntN(50)) * time.Second
	if s.one(8) {
		d *= 10
	}
	s.say("%s pass", d)
	if s.one(2) {
		s.let(d)
		return
	}
	s.now = s.now.Add(d)
	s.step(0, Tick{})
}

// hostGusts are what befalls the agent, its host and its link.
func (s *storm) hostGusts() []gust {
	return []gust{
		{10, func(string) { s.boot() }},
		{25, func(string) { s.fuse = s.rng.IntN(12); s.say("the agent crashes after %d changes", s.fuse) }},
		{5, s.clockStep},
		{4, func(string) { s.say("the host reboots"); s.hv.RebootHost(); s.linkDown = false; s.boot() }},
		{12, s.link},
		{14, func(string) { s.say("events overflow"); s.hv.EmitOverflow() }},
		{8, func(string) { s.say("events come twice"); s.hv.DoubleEvents(3) }},
		{12, func(string) {
			s.say("events are lost")
			s.hints = nil
			for s.nextHint() {
			}
			s.hints = nil
		}},
		{8, func(string) { s.probeOK = !s.probeOK; s.say("probes answer: %v", s.probeOK) }},
		{8, s.memoryShort},
		{3, s.otherID},
	}
}

// clockStep moves the clock while the agent is not there.
func (s *storm) clockStep(string) {
	d := []time.Duration{-time.Hour, 24 * time.Hour, -24 * time.Hour}[s.rng.IntN(3)]
	s.say("the clock steps by %s", d)
	s.now = s.now.Add(d)
	s.boot()
}

func (s *storm) link(string) {
	s.linkDown = !s.linkDown
	s.say("link down: %v", s.linkDown)
	if s.linkDown {
		s.hv.LoseLink("lost")
	} else {
		s.hv.RestoreLink()
	}
}

func (s *storm) memoryShort(string) {
	s.memory = uint64(1+s.rng.IntN(8)) << 30
	if s.one(2) {
		s.memory = 1<<30 + uint64(s.rng.IntN(4))<<28
	}
	s.say("the host has %d MiB available", s.memory>>20)
}

// otherID is a host that is another by its machine-id, until it is put right or
// an operator says that it is the same.
func (s *storm) otherID(string) {
	if s.hostID == testHost && (s.tree.marker != observe.MarkerOK || !s.treeKnown()) {
		return
	}
	if s.hostID == testHost {
		s.hostID = "host-2"
	} else {
		s.hostID = testHost
	}
	s.boot()
}
