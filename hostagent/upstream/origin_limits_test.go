package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// zeros is a reader that never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Case 144: a body that grows when it is unpacked ends at the limit on what it
// grows to, and takes no memory beyond. It is not parallel: it measures.
func TestCase144_BombsEndAtTheDecodedLimit(t *testing.T) {
	const limit = 1 << 20
	member := zipped(t, io.LimitReader(zeros{}, 16<<20))
	bomb := bytes.Repeat(member, 50)
	for name, flush := range map[string]bool{"announced": false, "not announced": true} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			if flush {
				http.NewResponseController(w).Flush()
			}
			w.Write(bomb)
		})
		o := originOf(t, s, "", OriginOptions{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := o.Get(t.Context(), Request{Limit: limit})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) || ClassOf(err) != Permanent {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16*limit {
			t.Errorf("%s: %d bytes were used for a limit of %d", name, used, limit)
		}
	}
}

// Case 144, in time: a server that sends for ever is given up, however it does it.
func TestI15_Case144_EndlessAnswersEnd(t *testing.T) {
	t.Parallel()
	every := func(d time.Duration, n int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for r.Context().Err() == nil {
				w.Write(make([]byte, n))
				http.NewResponseController(w).Flush()
				<-tick.C
			}
		}
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		status int // 0: the body of a good answer
	}{
		{"no header", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0},
		{"drop by drop", every(10*time.Millisecond, 1), 0},
		{"slowly, though never stalled", every(10*time.Millisecond, minProgress), 0},
		{"the body of an error", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			every(10*time.Millisecond, 1)(w, r)
		}, 502},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) { tt.answer(w, r) })
			o := originOf(t, s, "", OriginOptions{Stall: time.Second, Now: time.Now})
			o.whole = 2 * time.Second
			_, err := o.Get(t.Context(), Request{Limit: 1 << 40})
			if tt.status == 0 && !errors.Is(err, ErrStalled) || tt.status != 0 && !isStatus(tt.status)(err) {
				t.Errorf("Get = %v", err)
			}
		})
	}
}

// Nothing that accepts a connection and says no more holds a call up.
func TestI15_SilentHandshakeIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := NewOrigin("https://"+l.Addr().String(), OriginOptions{Stall: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Get(t.Context(), Request{Wait: time.Hour}); !errors.Is(err, ErrStalled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get = %v", err)
	}
}

func TestGetEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := originOf(t, s, "", OriginOptions{}).Get(ctx, Request{Wait: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v", err)
	}
}

// A long poll may take longer than a stall, by as much as was asked for.
func TestLongPollIsNoStall(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	for _, protocols := range [][]string{{"h2"}, {"http/1.1"}} {
		config := ca.server("origin", nil)
		config.NextProtos = protocols
		s := newServerWith(t, config, func(_ int, w http.ResponseWriter, r *http.Request) {
			timer := time.NewTimer(1200 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
			}
			w.Write([]byte(r.Proto))
		})
		o := originOf(t, s, "", OriginOptions{Stall: 600 * time.Millisecond, Files: Files{CA: put(t, filesIn(t).CA, ca.pem())}})
		if a, err := o.Get(t.Context(), Request{Limit: 10, Wait: 2 * time.Second}); err != nil {
			t.Errorf("%s: %q, %v", protocols, a.Body, err)
		}
		if _, err := o.Get(t.Context(), Request{Limit: 10}); !errors.Is(err, ErrStalled) {
			t.Errorf("%s: without a wish to wait: %v", protocols, err)
		}
	}
}

// relay passes connections on to a server until it is told to swallow what
// comes, as a network does from which the server was cut off.
type relay struct {
	net.Listener
	to       string
	swallow  atomic.Bool
	accepted atomic.Int64
	ended    chan struct{} // one for each direction of a connection
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, ended: make(chan struct{}, 100)}
	t.Cleanup(func() { l.Close() })
	go r.serve()
	return r
}

func (r *relay) serve() {
	for {
		near, err := r.Accept()
		if err != nil {
			return
		}
		r.accepted.Add(1)
		far, err := net.Dial("tcp", r.to)
		if err != nil {
			near.Close()
			continue
		}
		go r.pass(near, far)
		go r.pass(far, near)
	}
}

func (r *relay) pass(from, to net.Conn) {
	defer func() { r.ended <- struct{}{} }()
	defer to.Close()
	_, _ = io.Copy(writerFunc(func(p []byte) (int, error) {
		if r.swallow.Load() {
			return len(p), nil
		}
		return to.Write(p)
	}), from)
}

// A connection whose peer is gone without a word is noticed while a long poll
// waits on it, and not used again.
func TestI15_HalfOpenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := newServerWith(t, ca.server("origin", nil), func(_ int, w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Proto)) })
	r := newRelay(t, s.Listener.Addr().String())
	o, err := NewOrigin("https://"+r.Addr().String(), OriginOptions{
		Stall: time.Second, Files: Files{CA: put(t, filesIn(t).CA, ca.pem())},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIdle(o)
	if got := ask(t, o); got != "HTTP/2.0" {
		t.Fatalf("answer %q", got)
	}
	r.swallow.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := o.Get(ctx, Request{Limit: 10, Wait: time.Hour}); err == nil || ctx.Err() != nil {
		t.Errorf("Get = %v", err)
	}
	r.swallow.Store(false)
	if got := ask(t, o); got != "HTTP/2.0" {
		t.Errorf("answer %q", got)
	}
}
