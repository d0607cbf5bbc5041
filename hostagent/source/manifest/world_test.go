package manifest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

var _ Getter = (*upstream.Origin)(nil)

// server answers requests and remembers them. It is a Getter.
type server struct {
	answer func(ctx context.Context, r upstream.Request) (upstream.Answer, error)

	mu    sync.Mutex
	asked []upstream.Request
	at    []time.Time
}

// Get implements Getter.
func (v *server) Get(ctx context.Context, r upstream.Request) (upstream.Answer, error) {
	v.mu.Lock()
	v.asked, v.at = append(v.asked, r), append(v.at, time.Now())
	answer := v.answer
	v.mu.Unlock()
	return answer(ctx, r)
}

// requests gives what was asked so far, and when.
func (v *server) requests() ([]upstream.Request, []time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked, v.at
}

func (v *server) set(answer func(context.Context, upstream.Request) (upstream.Answer, error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = answer
}

// good is a complete answer of JSON.
func good(body, etag string) upstream.Answer {
	return upstream.Answer{Status: http.StatusOK, Body: []byte(body), ETag: etag, ContentType: "application/json"}
}

// file serves a document as a web server does a file.
func file(body, etag string) func(context.Context, upstream.Request) (upstream.Answer, error) {
	return func(_ context.Context, r upstream.Request) (upstream.Answer, error) {
		if r.ETag == etag && etag != "" {
			return upstream.Answer{Status: http.StatusNotModified, ETag: etag}, nil
		}
		return good(body, etag), nil
	}
}

// status answers with a status, and what it says about when to come back.
func status(code int, retryAfter time.Duration) func(context.Context, upstream.Request) (upstream.Answer, error) {
	return func(context.Context, upstream.Request) (upstream.Answer, error) {
		return upstream.Answer{}, &upstream.Error{Op: "get", URL: testURL, Err: &upstream.StatusError{Code: code, RetryAfter: retryAfter}}
	}
}

// unreachable fails with another text each time.
func unreachable() func(context.Context, upstream.Request) (upstream.Answer, error) {
	n := 0
	return func(context.Context, upstream.Request) (upstream.Answer, error) {
		n++
		return upstream.Answer{}, fmt.Errorf("dial: port %d: connection refused", n)
	}
}

// world is a Source, without its loop, on a state directory in memory.
type world struct {
	t     *testing.T
	store *state.Memory
	rules Rules
	opt   Options
	log   *logs
	good  map[string]source.Entry // last good specs, as the agent keeps them
	s     *Source
	now   time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: state.NewMemory(), rules: rules(), log: &logs{}, now: epoch}
	w.start()
	return w
}

// start makes the source anew from what is kept.
func (w *world) start() {
	w.t.Helper()
	opt := w.opt
	opt.Store, opt.Rules, opt.Log = w.store, w.rules, w.log.logger()
	opt.Now = func() time.Time { return w.now }
	w.s = New(opt)
	w.s.Restore(w.store.Content().Entries, w.good)
}

// attempt is one turn of the loop. It gives what the attempt ended with.
func (w *world) attempt(answer func(context.Context, upstream.Request) (upstream.Answer, error)) error {
	w.now = w.now.Add(time.Minute)
	r := upstream.Request{ETag: w.s.etag()}
	a, err := answer(context.Background(), r)
	_, err = w.s.settle(a, err, r.ETag, w.now)
	snap := w.s.Snapshot()
	if snap.Synced {
		w.good = map[string]source.Entry{}
		for name, e := range snap.Entries {
			w.good[name] = source.Entry{Name: name, Spec: e.Spec, Hash: e.Hash}
		}
	}
	return err
}

// must is an attempt that ends well.
func (w *world) must(answer func(context.Context, upstream.Request) (upstream.Answer, error)) {
	w.t.Helper()
	if err := w.attempt(answer); err != nil {
		w.t.Fatal(err)
	}
}

// want compares what stands: the names listed, and why the source is in doubt,
// "" when it is not.
func (w *world) want(when, listed string, reason Reason) {
	w.t.Helper()
	snap, st := w.s.Snapshot(), w.s.Status()
	if got := names(snap); got != listed || snap.Synced != (reason == "") || st.Reason != reason {
		w.t.Errorf("%s: lists %q, synced %v, reason %q: %s; want %q, reason %q", when, got, snap.Synced, st.Reason, st.Problem, listed, reason)
	}
	if (snap.Problem == "") != snap.Synced || snap.Origin != source.OriginManifest || snap.Location != testURL {
		w.t.Errorf("%s: %+v", when, snap)
	}
}

// refused is an attempt that changes nothing, for a reason.
func (w *world) refused(when string, answer func(context.Context, upstream.Request) (upstream.Answer, error), reason Reason) {
	w.t.Helper()
	before, seq, entries := w.s.etag(), w.s.Snapshot().Seq, names(w.s.Snapshot())
	if err := w.attempt(answer); err == nil {
		w.t.Errorf("%s: it was taken", when)
	}
	w.want(when, entries, reason)
	if w.s.etag() != before || w.s.Snapshot().Seq != seq {
		w.t.Errorf("%s: the tag is %q, was %q; sequence %d, was %d", when, w.s.etag(), before, w.s.Snapshot().Seq, seq)
	}
}

// secret looks for user-data where it must not be.
func (w *world) secret() {
	w.t.Helper()
	snap := w.s.Snapshot()
	said := fmt.Sprintf("%+v %q %q %s", w.s.Status(), snap.Problem, snap.Ignored, w.log.text())
	if strings.Contains(said, canary) {
		w.t.Errorf("user-data is shown: %s", said)
	}
}

var errDisk = errors.New("no space left on device")
