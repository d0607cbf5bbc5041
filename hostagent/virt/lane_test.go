package virt

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
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
