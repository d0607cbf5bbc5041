package hostagent

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// simNames are the names that proxies have in a storm.
var simNames = []string{"a", "b", "c", "d", "e", "f"}

// storm is one simulation: a farm, the world around it, and who watches that
// the promises are kept.
type storm struct {
	*farm
	world
	watcher
	rng *rand.Rand
	log []string
	out bytes.Buffer // what the agents logged

	hostID string      // that agents find when they boot
	hints  []Hint      // that were sent and have not been delivered
	late   []reply     // to effects that were run, and reads of sources
	dead   bool        // the agent has crashed and is not started again yet
	fuse   int         // changes until the agent crashes; negative: it does not
	refuse faultsLeft  // by others than the hypervisor
	nextID uint64      // of an order
	ids    []uuidNames // of all UUIDs that proxies may have
}

// reply is an event on its way to the core.
type reply struct {
	what string
	due  time.Time // not before
	read int       // when its content was read, in storm.reads; 0: as it is delivered
	ev   func() Event
}

// uuidNames is what a UUID stands for.
type uuidNames struct {
	uuid, name string
	generation int
}

// generations are how many VMs of a name a storm looks after.
const simGenerations = 8

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{farm: newFarm(t), rng: rand.New(rand.NewPCG(seed, 1)), fuse: -1, hostID: testHost}
	for _, name := range simNames {
		for g := range simGenerations {
			s.ids = append(s.ids, uuidNames{domxml.DomainUUID(testHost, domxml.Identity(name, g)), name, g})
		}
	}
	s.lateSaves, s.startInterval = true, 2*time.Second
	s.hv.Preload(virttest.ForeignDomains()...)
	s.hv.Gate(func(method string) error { return s.change(method) })
	s.tree.pass = func(c treeChange) error {
		if s.refuse.take(&s.refuse.tree) {
			return errSimulated
		}
		if err := s.change("tree " + c.what); err != nil {
			return err
		}
		s.treeChanged(c)
		return nil
	}
	s.store.Fail = func(c state.Change) error {
		if s.refuse.take(&s.refuse.state) {
			return errSimulated
		}
		if err := s.change(fmt.Sprintf("save %s %s", c.Kind, c.Key)); err != nil {
			return err
		}
		s.written(c)
		return nil
	}
	s.newWorld(seed)
	s.newWatcher()
	s.boot()
	return s
}

// say adds a line to the transcript.
func (s *storm) say(format string, a ...any) {
	s.log = append(s.log, s.now.Format("02 15:04:05 ")+fmt.Sprintf(format, a...))
}

// blame fails the simulation for a promise that was not kept.
func (s *storm) blame(format string, a ...any) {
	s.t.Helper()
	s.t.Errorf(format, a...)
	s.say("PROMISE NOT KEPT: "+format, a...)
}

// one tells whether a chance of 1 in n came true.
func (s *storm) one(n int) bool { return s.rng.IntN(n) == 0 }

// change is asked before each change of anything outside the agent: it lets so
// many through, then the agent is dead.
func (s *storm) change(what string) error {
	if s.dead {
		return errDead
	}
	if s.fuse == 0 {
		s.dead = true
		s.say("the agent crashes before: %s", what)
		return errDead
	}
	if s.fuse > 0 {
		s.fuse--
	}
	return nil
}

// boot starts an agent on what the last one left.
func (s *storm) boot() {
	s.dead, s.fuse = false, -1
	s.queue, s.late, s.hints = nil, nil, nil
	for s.nextHint() {
	}
	s.hints = nil
	s.cfg = s.nextCfg
	parts := s.parts()
	s.configure(&parts)
	parts.Log = slog.New(slog.NewTextHandler(&s.out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.agent = New(parts)
	s.say("agent boots at %s as %s, sources %s, image %d, memory %d", s.now.Format(time.DateTime), parts.Settings.Policy.HostID,
		parts.Settings.Origins, s.cfg.image, s.cfg.memory)
	s.watchBoot()
	for _, k := range s.desks {
		if k.pub != nil {
			k.pub.restart(parts.Kept, s.store, func() time.Time { return s.now })
			continue
		}
		k.restore(parts.Kept.Specs[k.origin])
	}
	if s.linkDown {
		s.step(0, Tick{})
	} else {
		s.step(0, Hint{observe.Event{Kind: observe.Connected}})
	}
	s.readSources()
}

// step hands events to the core and looks at what it makes of them. read is
// when they were read.
func (s *storm) step(read int, events ...Event) {
	if s.dead {
		return
	}
	for _, ev := range events {
		s.hear(ev, read)
	}
	s.now = s.now.Add(time.Millisecond) // no two things happen at once
	n := len(s.queue)
	s.farm.step(events...)
	s.agent.publish()
	s.agent.logChanges()
	s.agent.logProblems(s.agent.shown.Load())
	s.checkStep(s.queue[n:])
}
