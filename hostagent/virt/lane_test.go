package virt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// sharedNode is the test driver's default node: all connections see the same,
// so that a session has one for each kind of call.
const sharedNode = "test:///default"

func openShared(t *testing.T, timeout time.Duration) *fixture {
	t.Helper()
	f := start(t, Options{URI: sharedNode, CallTimeout: timeout})
	f.await(observe.Connected)
	if got := f.Stats(); got.Open != int(kindEnd) {
		t.Fatalf("%d connections, want one for each of %d kinds", got.Open, kindEnd)
	}
	return f
}

func (f *fixture) works(of kind) error {
	_, err := do(f.t.Context(), f.Conn, of, what{opList, "free"}, func(context.Context, *link) (none, error) {
		return none{}, nil
	})
	return err
}

func TestI15_AnExhaustedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for of, slots := range kindSlots {
		f := openShared(t, patience)
		release := f.block(kind(of), slots)
		eventually(t, "the connection is replaced", func() bool { return f.Stats().Replaced == 1 })
		if err := f.works(kind(of)); err != nil {
			t.Errorf("%s on the new connection: %v", kind(of), err)
		}
		if s := f.Stats(); s.Open != int(kindEnd)+1 || s.Stuck != slots || s.Degraded != "" || !s.Connected || s.Connects != 1 {
			t.Errorf("with %s stuck on the old connection: %+v", kind(of), s)
		}
		release()
		eventually(t, "the old connection is closed", func() bool { return f.Stats().Open == int(kindEnd) })
	}
}

func TestI14_ReplacingTheConnectionWithTheEventsListsEverything(t *testing.T) {
	t.Parallel()
	f := openShared(t, patience)
	defer f.block(reads, kindSlots[reads])()
	f.await(observe.Overflow)
	uuid := "6695eb01-f6a4-8304-79aa-97f2502e193f" // the node's one domain
	if err := f.Shutdown(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
	if ev := f.await(observe.DomainChanged); ev.UUID != uuid {
		t.Errorf("event %+v", ev)
	}
	if err := f.Start(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
}

func TestI15_ReplacementsAreBounded(t *testing.T) {
	t.Parallel()
	f := openShared(t, patience)
	var release []func()
	for n := range replacedMost + 1 {
		release = append(release, f.block(agents, kindSlots[agents]))
		if n < replacedMost {
			eventually(t, "the connection is replaced", func() bool { return f.Stats().Replaced == uint64(n)+1 })
		}
	}
	for range 10 {
		err := f.works(agents)
		if observe.ClassOf(err) != observe.Transient || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, observe.ErrNoDomain) {
			t.Fatalf("call without hope: %v, class %s", err, observe.ClassOf(err))
		}
	}
	s := f.Stats()
	if want := int(kindEnd) + replacedMost; s.Open != want || s.Replaced != replacedMost || s.Degraded == "" {
		t.Errorf("without hope: %+v, want %d connections", s, want)
	}
	if s.Stuck != (1+replacedMost)*kindSlots[agents] {
		t.Errorf("%d stuck calls", s.Stuck)
	}
	for _, of := range []kind{reads, writes} {
		if err := f.works(of); err != nil {
			t.Errorf("%s beside hopeless guest-agent calls: %v", of, err)
		}
	}
	for _, r := range release[:replacedMost] { // what was given up comes back first
		r()
	}
	eventually(t, "there is room for one more connection", func() bool { return f.works(agents) == nil })
	release[replacedMost]()
	eventually(t, "all is well", func() bool {
		s := f.Stats()
		return s.Open == int(kindEnd) && s.Stuck == 0 && s.Degraded == ""
	})
}

// A connection that was given up may be lost later; that is no loss of the link.
func TestLosingAConnectionGivenUpIsNoLoss(t *testing.T) {
	t.Parallel()
	f := openShared(t, patience)
	old := f.session.Load().lanes[agents].now.Load().link
	release := f.block(agents, kindSlots[agents])
	eventually(t, "the connection is replaced", func() bool { return f.Stats().Replaced == 1 })
	old.report("test: the old connection is lost")
	if err := f.works(agents); err != nil {
		t.Error(err)
	}
	release()
	eventually(t, "the old connection is closed", func() bool { return f.Stats().Open == int(kindEnd) })
	if s := f.Stats(); s.Connects != 1 {
		t.Errorf("the session was given up: %+v", s)
	}
}

// Whether a connection is alive can be asked while it is replaced and closed.
func TestALookAtAConnectionSurvivesItsReplacement(t *testing.T) {
	t.Parallel()
	f := openShared(t, patience)
	s := f.session.Load()
	var stopped, dead atomic.Bool
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for !stopped.Load() {
			for _, l := range s.lanes {
				if l.now.Load().link.dead() {
					dead.Store(true)
				}
			}
		}
	})
	for n := range 20 {
		f.block(agents, kindSlots[agents])() // comes back while the replacement dials
		eventually(t, "the connection is replaced", func() bool {
			s := f.Stats()
			return (s.Replaced == uint64(n)+1 || !f.session.Load().lanes[agents].now.Load().exhausted()) && s.Stuck == 0
		})
	}
	stopped.Store(true)
	watcher.Wait()
	if dead.Load() || f.Stats().Connects != 1 {
		t.Errorf("a healthy connection looked dead: %+v", f.Stats())
	}
	eventually(t, "the old connections are closed", func() bool { return f.Stats().Open == int(kindEnd) })
}

// What sessions left behind counts: losses and stuck calls together open no
// more connections than either.
func TestI15_ConnectionsAreBoundedOverSessions(t *testing.T) {
	t.Parallel()
	f := start(t, Options{URI: sharedNode, CallTimeout: patience, ReconnectMin: time.Millisecond, ReconnectMax: time.Millisecond})
	f.await(observe.Connected)
	var release []func()
	for refused := false; !refused; {
		if len(release) > 100 {
			t.Fatal("there is no end to the connections")
		}
		release = append(release, f.block(agents, kindSlots[agents]))
		eventually(t, "the connection is replaced or may not be", func() bool {
			return f.Stats().Degraded != "" || !f.session.Load().lanes[agents].now.Load().exhausted()
		})
		if f.Stats().Degraded == "" {
			release = append(release, f.block(agents, 1))
		}
		f.LoseLink("test")
		f.await(observe.LinkLost)
		eventually(t, "there is a link, or a reason for none", func() bool {
			refused = strings.Contains(*f.down.Load(), "have not come back")
			return f.Stats().Connected || refused
		})
		if got := f.Stats().Open; got > connectionsMost {
			t.Errorf("%d connections", got)
		}
	}
	if _, err := f.ListDomains(t.Context()); observe.ClassOf(err) != observe.Disconnected || !strings.Contains(err.Error(), "restart libvirtd") {
		t.Errorf("%v", err)
	}
	for _, r := range release {
		r()
	}
	eventually(t, "the link is up, and all else closed", func() bool { s := f.Stats(); return s.Connected && s.Open == int(kindEnd) })
}

func TestI15_WhoWaitsForASlotHearsThatThereIsNoHope(t *testing.T) {
	t.Parallel()
	f := start(t, Options{URI: virttest.NodeURI(t), CallTimeout: patience})
	f.await(observe.Connected)
	undo := f.block(agents, kindSlots[agents]-1)
	gate, entered := make(chan struct{}), make(chan struct{})
	ctx, expire := expiring()
	var calls sync.WaitGroup
	calls.Go(func() {
		_, _ = do(ctx, f.Conn, agents, what{opList, "last"}, func(context.Context, *link) (none, error) {
			close(entered)
			<-gate
			return none{}, nil
		})
	})
	<-entered
	waiting := make(chan error, 1)
	go func() { waiting <- f.works(agents) }() // before hope is gone, or after: both must end
	expire()
	select {
	case err := <-waiting:
		if !errors.Is(err, observe.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	case <-time.After(patience / 2):
		t.Error("it waits for a slot that can not come")
	}
	close(gate)
	undo()
	calls.Wait()
	eventually(t, "all came back", func() bool { return f.Stats().Stuck == 0 })
}

// A replacement that is lost before it is in use ends no session, and one that
// is lost just then is not forgotten.
func TestALossBeforeUseIsKept(t *testing.T) {
	t.Parallel()
	s := newSession()
	k := &link{session: s}
	k.report("early")
	select {
	case reason := <-s.lost:
		t.Errorf("the session was ended: %s", reason)
	default:
	}
	k.use()
	if reason := <-s.lost; reason != "early" {
		t.Errorf("reason %q", reason)
	}
	k.retired.Store(true)
	k.report("late")
	select {
	case reason := <-s.lost:
		t.Errorf("the end of a connection given up ended the session: %s", reason)
	default:
	}
}

// A connection that may be closed by now is not asked whether it lives.
func TestAConnectionGivenUpIsNotLookedAt(t *testing.T) {
	t.Parallel()
	k := &link{close: func() {}} // any look would need its conn
	k.retire()
	if k.dead() {
		t.Error("it counts as dead")
	}
}

// Places among the connections are taken one by one, whoever asks at once.
func TestI15_PlacesAreTakenOneByOne(t *testing.T) {
	t.Parallel()
	c := New(Options{URI: sharedNode})
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, ok := c.noteDial(1); ok {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if got := int(taken.Load()); got != connectionsMost {
		t.Errorf("%d places taken, there are %d", got, connectionsMost)
	}
}
