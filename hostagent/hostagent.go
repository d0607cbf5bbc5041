// Package hostagent is the agent itself: it wires sources, hypervisor, image
// tree, planner and executor together. The Core decides, deterministically,
// one step at a time; the Agent around it owns the goroutines, the clock and
// the order in which effects run.
//
// It does not speak to libvirt (virt does, handed in as Hypervisor) and has no
// opinion of its own about what to do next (plan has).
package hostagent

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/apply"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Hypervisor is all that the agent needs of libvirt.
type Hypervisor interface {
	apply.Hypervisor
	// Run keeps the link up until ctx ends.
	Run(ctx context.Context) error
	// Events gives hints; each one only says where to look again.
	Events() <-chan observe.Event
	// Stats tells how the link is doing, without a call.
	Stats() observe.LinkStats
	ListDomains(ctx context.Context) ([]observe.RawDomain, error)
	Claims(ctx context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error)
	NetworkPrefixes(ctx context.Context, network string) ([]netip.Prefix, error)
}

// Tree is all that the agent needs of the image tree.
type Tree interface {
	apply.Tree
	Scan() observe.Tree
	// CheckMarker tells whether the tree can be seen and is this host's.
	CheckMarker() error
}

// Source is one source of desired state.
type Source interface {
	// Run reads until ctx ends and emits a snapshot after each read.
	Run(ctx context.Context, emit func(source.Snapshot)) error
	// Rescan asks for a read soon; it does not block.
	Rescan()
}

// Manifest is the pulled manifest besides its specs, for which it is a Source.
type Manifest interface {
	Status() status.Manifest
	// Reset forgets which revisions were taken.
	Reset() error
}

// Prober probes a proxy.
type Prober interface {
	Probe(ctx context.Context, t probe.Target) probe.Result
}

// Host reads what the host's own network looks like.
type Host interface {
	// Addresses are all of the host's own.
	Addresses() ([]netip.Addr, error)
	// InterfacePrefixes are the subnets a host interface is on.
	InterfacePrefixes(name string) ([]netip.Prefix, error)
	// MemoryAvailable is how many bytes can be used without swapping.
	MemoryAvailable() (uint64, error)
}

// State keeps what must survive a restart: each change whole or not at all, in
// order, up to the first that fails.
type State interface {
	Save(changes ...state.Change) error
}

// Parts is what an Agent is made of.
type Parts struct {
	Settings   Settings
	Kept       Kept     // from the state of an earlier run
	Problems   []string // with the state directory, for people
	Hypervisor Hypervisor
	Tree       Tree
	Executor   *apply.Executor
	Sources    []Source
	Manifest   Manifest // nil: none is pulled
	Prober     Prober
	Host       Host
	State      State
	Actions    int // actions at once, at least 1
	Now        func() time.Time
	Log        *slog.Logger
	// Alive is called while the planner makes progress, at least every second.
	Alive func(status.Host)
}

// Agent runs the Core.
type Agent struct {
	p      Parts
	core   *Core
	events chan Event
	shown  atomic.Pointer[status.Host]
	lanes  map[string]*lane
	begun  map[string]time.Time // by proxy name or digest: when its action started
	said   map[string]bool      // problems of sources that the log has
	swept  sweep
	wg     sync.WaitGroup

	orders  atomic.Uint64 // so far
	waiting sync.Map      // order's ID -> chan Answered
	ended   chan struct{} // closed when the planner has ended
	rewire  bool
}

// New makes an Agent; it does no I/O.
func New(p Parts) *Agent {
	a := &Agent{
		p:      p,
		core:   NewCore(p.Settings, p.Kept),
		events: make(chan Event, 256),
		ended:  make(chan struct{}),
		begun:  map[string]time.Time{},
		said:   map[string]bool{},
	}
	a.lanes = map[string]*lane{
		laneActions: {limit: max(p.Actions, 1)},
		laneFetch:   {limit: 2},
		laneLooks:   {limit: 3},
		laneClaims:  {limit: 2},
		laneSilent:  {limit: 1}, // with the claims, as many as there are calls to guest agents at once
		laneProbes:  {limit: 8},
		laneLocal:   {limit: 1},
		laneState:   {limit: 1}, // of its own: a tombstone waits for no scan
	}
	p.Executor.Progress = func(sha string, done, total int64) {
		a.send(context.Background(), FetchProgress{SHA256: sha, Done: done, Total: total})
	}
	a.publish()
	return a
}

// Status implements the control API's backend: what the last pass found, as of
// now.
func (a *Agent) Status() status.Host {
	h := *a.shown.Load()
	h.Time = a.p.Now()
	h.Link = link(a.p.Hypervisor.Stats())
	h.Problems = a.p.Problems
	if a.p.Manifest != nil {
		m := a.p.Manifest.Status()
		h.Manifest = &m
		h.Conditions = append(slices.Clone(h.Conditions), manifestFresh(m, h.Time))
	}
	h.Goroutines = runtime.NumGoroutine()
	return h
}

func link(s observe.LinkStats) status.Link {
	return status.Link{
		Connected: s.Connected, Connections: s.Open, StuckCalls: s.Stuck, Connects: s.Connects,
		Replaced: s.Replaced, Leaked: s.Leaked, Handles: s.Handles,
	}
}

func (a *Agent) publish() {
	h := a.core.Status(a.p.Now())
	a.shown.Store(&h)
}

// minPause is the least time between two passes that no event asked for.
const minPause = 10 * time.Millisecond

// stopGrace bounds how long Run waits for what is under way when it ends.
const stopGrace = 8 * time.Second

// Run works until ctx ends, then waits, within a bound, for what is under way.
// Domains run on. The error is ErrRewire when the agent is to be made anew.
func (a *Agent) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.start(ctx)
	a.loop(ctx, work)
	close(a.ended)
	stop()
	cancel()
	a.wait()
	if a.rewire {
		return ErrRewire
	}
	return nil
}

// wait gives what is under way some time to end.
func (a *Agent) wait() {
	done := make(chan struct{})
	go func() { a.wg.Wait(); close(done) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	for {
		select {
		case <-done:
			return
		case <-a.events:
		case <-grace.C:
			a.p.Log.Warn("stopping with calls still stuck; nothing is lost, the next start goes on from what it finds")
			return
		}
	}
}

// start begins what feeds the loop.
func (a *Agent) start(ctx context.Context) {
	a.spawn(func() {
		if err := a.p.Hypervisor.Run(ctx); err != nil {
			a.p.Log.Error("link to libvirt ended", "error", err)
		}
	})
	a.spawn(func() {
		for {
			select {
			case ev := <-a.p.Hypervisor.Events():
				a.send(ctx, Hint{ev})
			case <-ctx.Done():
				return
			}
		}
	})
	for _, s := range a.p.Sources {
		a.spawn(func() {
			err := s.Run(ctx, func(snap source.Snapshot) { a.send(ctx, SourceRead{snap}) })
			if err != nil && ctx.Err() == nil {
				a.p.Log.Error("source ended", "error", err)
			}
		})
	}
}

func (a *Agent) spawn(f func()) {
	a.wg.Add(1)
	go func() {
		defer a.wg.Done()
		f()
	}()
}

func (a *Agent) send(ctx context.Context, ev Event) {
	select {
	case a.events <- ev:
	case <-ctx.Done():
	case <-a.ended: // nobody listens any more
	}
}

// loop is the planner's goroutine: it alone touches the Core.
func (a *Agent) loop(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	degraded := ""
	for {
		var batch []Event
		select {
		case <-ctx.Done():
			return
		case ev := <-a.events:
			batch = a.drain(ev)
		case <-timer.C:
			batch = []Event{Tick{}}
		case <-alive.C:
			a.p.Alive(a.Status())
			now := a.p.Hypervisor.Stats().Degraded
			if now == degraded {
				continue
			}
			degraded = now
			batch = []Event{LinkChecked{now}}
		}
		a.unwrap(batch)
		effects := a.core.Step(a.p.Now(), batch...)
		a.publish()
		a.logChanges()
		a.logProblems(a.shown.Load())
		a.logSweep(a.shown.Load())
		for _, ef := range effects {
			a.queue(work, ef)
		}
		a.dispatch(work)
		if a.rewire {
			return
		}
		timer.Reset(max(a.core.Wake().Sub(a.p.Now()), minPause))
	}
}

// drain takes what else is there, so that a burst is planned once.
func (a *Agent) drain(first Event) []Event {
	batch := []Event{first}
	for len(batch) < cap(a.events) {
		select {
		case ev := <-a.events:
			batch = append(batch, ev)
		default:
			return batch
		}
	}
	return batch
}
