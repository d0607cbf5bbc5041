package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

const testWait = 50 * time.Second

// running is a Source whose loop runs in a bubble of synctest.
type running struct {
	*Source
	server *server
	stop   func() time.Duration // how long that took

	mu   sync.Mutex
	said []source.Snapshot
}

func (r *running) emit(s source.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, s)
}

// snaps gives what was emitted so far.
func (r *running) snaps() []source.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

func (r *running) last() source.Snapshot { return r.snaps()[len(r.snaps())-1] }

// run starts a source; half of every random time is taken unless random says
// otherwise. answer is what the server says.
func run(t *testing.T, opt Options, answer func(context.Context, upstream.Request) (upstream.Answer, error)) *running {
	t.Helper()
	v := &server{answer: answer}
	opt.Get, opt.Rules = v, rules()
	if opt.Store == nil {
		opt.Store = state.NewMemory()
	}
	if opt.Random == nil {
		opt.Random = func(n time.Duration) time.Duration { return n / 2 }
	}
	r := &running{Source: New(opt), server: v}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, r.emit) }()
	r.stop = func() time.Duration {
		at := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
		return time.Since(at)
	}
	return r
}

// gaps gives the times between requests, the first one's from the start.
func (r *running) gaps(start time.Time) (gaps []time.Duration) {
	_, at := r.server.requests()
	for _, now := range at {
		gaps = append(gaps, now.Sub(start).Round(time.Millisecond))
		start = now
	}
	return gaps
}

// after lets some time go by.
func after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func TestPollsAtItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := run(t, Options{}, file(text(1, "a"), `"1"`))
		synctest.Wait()
		if snaps := r.snaps(); len(snaps) != 1 || snaps[0].Synced || !snaps[0].Read.IsZero() {
			t.Errorf("at the start: %+v", snaps)
		}
		after(200 * time.Second)
		if got := fmt.Sprint(r.gaps(start)); got != "[5s 1m0s 1m0s 1m0s]" {
			t.Errorf("gaps: %s", got)
		}
		if snaps := r.snaps(); len(snaps) != 5 || !snaps[1].Synced || snaps[4].Seq != 4 {
			t.Errorf("%+v", snaps)
		}
		if took := r.stop(); took != 0 {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestHostsThatStartTogetherDoNotAskTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		first := map[time.Duration]bool{}
		for range 20 {
			r := run(t, Options{Random: New(Options{}).opt.Random}, file(text(1, "a"), `"1"`))
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			for i, gap := range r.gaps(start) {
				if i == 0 && gap > 10*time.Second || i > 0 && (gap < 48*time.Second || gap > 72*time.Second) {
					t.Errorf("gap %d is %v", i, gap)
				}
				if i == 0 {
					first[gap] = true
				}
			}
			r.stop()
			start = time.Now()
		}
		if len(first) < 15 {
			t.Errorf("only %d different first waits", len(first))
		}
	})
}

func TestFullFetchesNowAndThen(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]int{time.Minute: fullEvery, time.Hour: 24} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, Options{Interval: interval}, file(text(1, "a"), `"1"`))
			after(101 * interval)
			asked, _ := r.server.requests()
			var full []int
			for i, q := range asked {
				if q.ETag == "" {
					full = append(full, i)
				}
				if q.Limit != MaxBody || q.Wait != 0 {
					t.Errorf("request %d: %+v", i, q)
				}
			}
			if len(full) < 3 || full[0] != 0 || full[1] != want || full[2] != 2*want {
				t.Errorf("every %v: the unconditional requests are %v, want every %d", interval, full, want)
			}
			r.stop()
		})
	}
}

func TestCase138_RetryAfterIsHeededWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, Options{}, file(text(1, "a"), `"1"`))
		after(10 * time.Second)
		start := time.Now().Add(-5 * time.Second)
		r.server.set(status(503, 100*365*24*time.Hour))
		after(62 * time.Minute)
		if gaps := r.gaps(start); len(gaps) != 3 || gaps[2] > time.Hour || gaps[2] < 59*time.Minute {
			t.Errorf("gaps: %v", gaps)
		}
		last := r.last()
		if last.Synced || names(last) != "a" {
			t.Errorf("%+v", last)
		}
		if took := r.stop(); took != 0 {
			t.Errorf("stopping within the wait took %v", took)
		}
	})
}

func TestBacksOffWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := run(t, Options{}, unreachable())
		after(30 * time.Minute)
		gaps := r.gaps(start)
		if got := fmt.Sprint(gaps[:6]); got != "[5s 500ms 1s 2s 4s 8s]" || gaps[len(gaps)-1] != 150*time.Second {
			t.Errorf("gaps: %v", gaps)
		}
		r.Rescan()
		after(10 * time.Second)
		if n := len(r.gaps(start)); n != len(gaps) {
			t.Error("a server in trouble was asked because of a rescan")
		}
		must(t, r.Reset()) // an operator's order is another matter
		synctest.Wait()
		if n := len(r.gaps(start)); n != len(gaps)+1 {
			t.Error("a reset did not bring a request at once")
		}
		r.server.set(file(text(1, "a"), `"1"`))
		after(3 * time.Minute)
		if !r.Snapshot().Synced {
			t.Error("not read again")
		}
		r.stop()
	})
}

// A document that is refused is looked at again at the usual pace: somebody is
// mending it.
func TestRefusedDocumentsAreAskedForAtTheUsualPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := run(t, Options{}, file(strings.Replace(text(1, "a"), "h1", "h2", 1), `"1"`))
		after(10 * time.Minute)
		if gaps := r.gaps(start); len(gaps) != 10 || gaps[9] != time.Minute {
			t.Errorf("gaps: %v", gaps)
		}
		if asked, _ := r.server.requests(); asked[9].ETag != "" || r.Status().Failures != 10 {
			t.Errorf("%+v, %+v", asked[9], r.Status())
		}
		r.stop()
	})
}

// A name that went missing is looked for once more, soon; a server is not asked
// more often than every few seconds all the same.
func TestRescan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := run(t, Options{}, file(text(1, "a"), `"1"`))
		after(6 * time.Second)
		for range 20 {
			r.Rescan()
			after(500 * time.Millisecond)
		}
		if got := fmt.Sprint(r.gaps(start)); got != "[5s 5.5s 5.5s]" {
			t.Errorf("gaps: %s", got)
		}
		if s := r.last(); s.Seq != 3 || !s.Synced {
			t.Errorf("a 304 is a read too: %+v", s)
		}
		after(30 * time.Second)
		r.Rescan()
		after(time.Second)
		if _, at := r.server.requests(); time.Since(at[len(at)-1]) > time.Second {
			t.Errorf("not soon: %v", r.gaps(start))
		}
		r.stop()
	})
}

// longPoll holds its answer back until the document changes, or wait is over.
func longPoll(document func() (body, etag string)) func(context.Context, upstream.Request) (upstream.Answer, error) {
	return func(ctx context.Context, r upstream.Request) (upstream.Answer, error) {
		deadline := time.Now().Add(r.Wait)
		for {
			body, tag := document()
			a, err := file(body, tag)(ctx, r)
			if left := time.Until(deadline); a.Status == 200 || left <= 0 {
				a.Waited = r.Wait > 0
				return a, err
			}
			select {
			case <-ctx.Done():
				return upstream.Answer{}, ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var revision atomic.Int64
		revision.Store(1)
		r := run(t, Options{Wait: testWait}, longPoll(func() (string, string) {
			n := int(revision.Load())
			return text(n, "a"), fmt.Sprint(n)
		}))
		after(5*time.Minute + 30*time.Second)
		asked, _ := r.server.requests()
		if asked[0].Wait != 0 || asked[1].Wait != testWait || fmt.Sprint(r.gaps(start)[:5]) != "[5s 1m0s 50.5s 50.5s 50.5s]" {
			t.Errorf("%+v, gaps %v", asked, r.gaps(start))
		}
		revision.Store(2) // one is under way: it counts at once
		after(200 * time.Millisecond)
		if got := r.Status().Revision; got != 2 {
			t.Errorf("revision %d", got)
		}
		after(30 * time.Second)
		n := len(r.gaps(start))
		r.Rescan() // and this gives it up for an answer now
		after(time.Second)
		asked, _ = r.server.requests()
		if len(asked) != n+1 || asked[n].Wait != 0 || asked[n].ETag != "2" {
			t.Errorf("%d requests, then %+v", n, asked)
		}
		after(2 * time.Minute)
		if asked, _ = r.server.requests(); asked[n+1].Wait == 0 {
			t.Error("it does not wait again")
		}
		if took := r.stop(); took != 0 {
			t.Errorf("stopping within a request took %v", took)
		}
	})
}

// A server that does not wait, whatever it says, is asked at the usual pace.
func TestServersThatDoNotWait(t *testing.T) {
	t.Parallel()
	for _, says := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			r := run(t, Options{Wait: testWait}, func(ctx context.Context, q upstream.Request) (upstream.Answer, error) {
				a, err := file(text(1, "a"), `"1"`)(ctx, q)
				a.Waited = says && q.Wait > 0
				return a, err
			})
			after(2 * time.Hour)
			offered := 0
			asked, _ := r.server.requests()
			for i, q := range asked {
				if q.Wait > 0 {
					offered++
				}
				if gap := r.gaps(start)[i]; i > 0 && gap != time.Minute {
					t.Errorf("gap %d: %v", i, gap)
				}
			}
			if !says && offered != 3 { // once after each unconditional request
				t.Errorf("asked to wait %d times", offered)
			}
			r.stop()
		})
	}
}

func TestAServerWithSomethingNewEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		r := run(t, Options{Wait: testWait}, func(ctx context.Context, q upstream.Request) (upstream.Answer, error) {
			n++
			a := good(text(n, "a"), fmt.Sprint(n))
			a.Waited = true
			return a, nil
		})
		after(10 * time.Minute)
		for i, gap := range r.gaps(start) {
			if i > 0 && gap < minGap {
				t.Errorf("gap %d: %v", i, gap)
			}
		}
		r.stop()
	})
}
