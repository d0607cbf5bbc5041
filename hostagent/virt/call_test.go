package virt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// slots are those of the connection in use for calls of that kind.
func (f *fixture) slots(of kind) chan struct{} { return f.session.Load().lanes[of].now.Load().slots }

// expiring is a context whose deadline is over when expire is called.
func expiring() (ctx context.Context, expire func()) {
	done := make(chan struct{})
	return expiry{context.Background(), done}, func() { close(done) }
}

type expiry struct {
	context.Context
	done chan struct{}
}

func (e expiry) Done() <-chan struct{} { return e.done }

func (e expiry) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// block occupies n slots of a lane with calls that do not return before
// release, and whose callers gave up.
func (f *fixture) block(of kind, n int) (release func()) {
	f.t.Helper()
	before := f.Stats().Stuck
	gate := make(chan struct{})
	for range n {
		ctx, expire := expiring()
		entered, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			_, err := do(ctx, f.Conn, of, what{opList, "blocked"}, func(context.Context, *link) (none, error) {
				close(entered)
				<-gate
				return none{}, nil
			})
			if !errors.Is(err, context.DeadlineExceeded) || observe.ClassOf(err) != observe.Transient {
				f.t.Errorf("call given up: %v, class %s", err, observe.ClassOf(err))
			}
		}()
		<-entered
		expire()
		<-gone
	}
	if got := f.Stats().Stuck; got != before+n {
		f.t.Errorf("%d stuck calls, want %d", got, before+n)
	}
	return func() { close(gate) }
}

func TestI15_AHungCallEndsAtItsDeadlineAndKeepsItsSlot(t *testing.T) {
	t.Parallel()
	f := start(t, Options{URI: virttest.NodeURI(t), CallTimeout: 50 * time.Millisecond})
	f.await(observe.Connected)
	gate := make(chan struct{})
	_, err := do(t.Context(), f.Conn, writes, what{opStart, "hung"}, func(context.Context, *link) (none, error) {
		<-gate
		return none{}, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) || observe.ClassOf(err) != observe.Transient || errors.Is(err, observe.ErrNoDomain) {
		t.Errorf("hung call: %v, class %s", err, observe.ClassOf(err))
	}
	slots := f.slots(writes)
	if len(slots) != 1 || f.Stats().Stuck != 1 {
		t.Errorf("%d slots taken, %+v; want 1 of each", len(slots), f.Stats())
	}
	close(gate)
	eventually(t, "the slot is free", func() bool { return len(slots) == 0 && f.Stats().Stuck == 0 })
}

func TestI15_HungCallsOfOneLaneDelayNoOther(t *testing.T) {
	t.Parallel()
	f := start(t, Options{URI: virttest.NodeURI(t, virttest.ForeignDomains()...)})
	f.await(observe.Connected)
	for of, slots := range kindSlots {
		defer f.block(kind(of), slots-1)()
	}
	release := f.block(agents, 1)
	uuid := virttest.ForeignDomains()[0].UUID
	_, err := f.Claims(t.Context(), uuid, observe.FromAgent)
	if observe.ClassOf(err) != observe.Transient || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call without a slot that can not come: %v, class %s", err, observe.ClassOf(err))
	}
	if got := f.Stats().Degraded; !strings.Contains(got, "none of 3 guest-agent calls") {
		t.Errorf("degraded: %q", got)
	}
	if f.Stats().Stuck != 4+4+3-2 {
		t.Errorf("a call that got no slot counts as stuck: %+v", f.Stats())
	}
	if _, err := f.LookupDomain(t.Context(), uuid); err != nil {
		t.Errorf("read beside hung agents: %v", err)
	}
	if err := f.SetAutostart(t.Context(), uuid, true); err != nil {
		t.Errorf("write beside hung agents: %v", err)
	}
	release()
	eventually(t, "an agent's slot is free", func() bool {
		_, err := f.Claims(t.Context(), uuid, observe.FromAgent)
		return err == nil
	})
}

func TestAConnectionIsNotClosedUnderACall(t *testing.T) {
	t.Parallel()
	f := open(t)
	release := f.block(reads, 1)
	old := f.session.Load()
	old.report("test: the link is lost")
	f.await(observe.LinkLost)
	f.await(observe.Connected)
	if s := f.Stats(); s.Open != 2 || s.Connects != 2 || s.Stuck != 1 {
		t.Errorf("with a call on the old connection: %+v", s)
	}
	if !old.lanes[reads].now.Load().link.alive() {
		t.Error("the old connection was closed under its call")
	}
	release()
	eventually(t, "the old connection is closed", func() bool { return f.Stats().Open == 1 })
}

func TestI15_RunEndsUnderAHungCall(t *testing.T) {
	t.Parallel()
	f := start(t, Options{URI: virttest.NodeURI(t)})
	f.grace = 10 * time.Millisecond
	f.await(observe.Connected)
	release := f.block(reads, 1)
	f.stop()
	select {
	case err := <-f.done:
		f.done <- err
	case <-time.After(patience):
		t.Fatal("Run waits for a hung call")
	}
	if s := f.Stats(); s.Open != 1 || s.Stuck != 1 || s.Connected {
		t.Errorf("after Run: %+v", s)
	}
	release()
	eventually(t, "the connection is closed", func() bool { return f.Stats().Open == 0 })
}
