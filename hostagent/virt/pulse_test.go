package virt

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// oneLane is a session that is only watched.
func oneLane() (*session, *lane) {
	s := newSession()
	l := newLane(reads, false)
	l.now.Store(newChannel(&link{session: s, closed: make(chan struct{})}, 1))
	s.lanes[reads] = l
	return s, l
}

func beats(p *pulse, l *lane, ctx context.Context, n int) bool {
	for range n {
		synctest.Wait()
		select {
		case k := <-p.back:
			p.answered(k)
		default:
		}
		if !p.beat(ctx, l.now.Load().link) {
			return false
		}
		synctest.Wait()
	}
	return true
}

func TestI15_ASilentDaemonIsGivenUpAfterFourBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, l := oneLane()
		p := newPulse()
		gate := make(chan bool)
		var answer atomic.Bool
		answer.Store(true)
		p.ask = func(*link) bool {
			if answer.Load() {
				return true
			}
			return <-gate
		}
		if !beats(p, l, t.Context(), 100) {
			t.Fatal("a daemon that answers was given up")
		}
		answer.Store(false)
		if !beats(p, l, t.Context(), missedMost) { // the first asks, each later one misses
			t.Errorf("given up after %d missed beats", p.missed)
		}
		gate <- true // late, and a sign of life
		answer.Store(true)
		if !beats(p, l, t.Context(), 100) {
			t.Error("given up although it answers again")
		}
		answer.Store(false)
		if beats(p, l, t.Context(), missedMost+1) {
			t.Error("a silent daemon was not given up")
		}
		gate <- false // the connection broke, which is no sign of life
		synctest.Wait()
		if len(p.back) != 0 {
			t.Error("the end of a connection counts as an answer")
		}
	})
}

// A question that hangs on a connection that was replaced says nothing of the
// one in its place.
func TestAReplacedConnectionIsAskedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := oneLane()
		p := newPulse()
		old := l.now.Load().link
		gate := make(chan bool)
		p.ask = func(k *link) bool {
			if k == old {
				return <-gate
			}
			return true
		}
		if !beats(p, l, t.Context(), 3) || p.missed != 2 {
			t.Fatalf("missed %d", p.missed)
		}
		l.now.Store(newChannel(&link{session: s, closed: make(chan struct{})}, 1))
		if !beats(p, l, t.Context(), 10) || p.missed != 0 {
			t.Errorf("missed %d on the connection in its place", p.missed)
		}
		gate <- true
		time.Sleep(time.Second)
	})
}

func TestARefusalIsASignOfLife(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err         error
		alive, want bool
	}{{nil, true, true}, {errors.New("refused"), true, true}, {errors.New("broken"), false, false}} {
		if got := signOfLife(test.err, func() bool { return test.alive }); got != test.want {
			t.Errorf("%v, alive %t: %t", test.err, test.alive, got)
		}
	}
}
