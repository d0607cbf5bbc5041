package manifest

import (
	"context"
	"errors"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// Run fetches the document until ctx ends and calls emit, on its own goroutine,
// with what stands: once at the start, as an earlier run kept it, and after each
// attempt. A server that can not be reached is no error: snapshots say so. It
// returns nil when ctx ends, at once, whatever it waits for.
func (s *Source) Run(ctx context.Context, emit func(source.Snapshot)) error {
	if lost := s.Status().Lost; lost != "" {
		s.opt.Log.Warn("manifest of an earlier run", "problem", lost)
	}
	emit(s.Snapshot())
	p := newPace(s.opt)
	var ended time.Time // of the last request
	for wait := p.random(firstWithin); s.pause(ctx, &p, wait, ended); {
		if s.judged.CompareAndSwap(true, false) {
			emit(s.Snapshot())
		}
		began := s.opt.Now()
		r := p.request(s.etag(), began)
		a, err := s.fetch(ctx, r)
		ended = s.opt.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errHurry):
			p.quick = true
			wait = p.gap(ended.Sub(began))
			continue
		}
		o := outcome{err: err, waited: a.Waited, took: ended.Sub(began), at: ended}
		o.changed, o.err = s.settle(a, err, r.ETag, ended)
		wait = p.next(r, o)
		emit(s.Snapshot())
	}
	return nil
}

// Once makes one attempt now, and gives what stands after it.
func (s *Source) Once(ctx context.Context) source.Snapshot {
	r := upstream.Request{ETag: s.etag(), Limit: MaxBody}
	a, err := s.opt.Get.Get(ctx, r)
	s.settle(a, err, r.ETag, s.opt.Now())
	return s.Snapshot()
}

// settle takes the end of an attempt: an answer to a request with the entity tag
// sent, or the error it got.
func (s *Source) settle(a upstream.Answer, got error, sent string, now time.Time) (changed bool, err error) {
	if err = got; err == nil {
		changed, err = s.take(a, sent, now)
	}
	s.note(err, changed, skewOf(a, got), now)
	return changed, err
}

// errHurry: a request that the server held back was given up for one that it
// answers at once.
var errHurry = errors.New("another read is asked for")

// fetch makes one request. What was asked for before it is done by it.
func (s *Source) fetch(ctx context.Context, r upstream.Request) (upstream.Answer, error) {
	drain(s.again)
	drain(s.asked)
	if r.Wait == 0 {
		return s.opt.Get.Get(ctx, r)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var a upstream.Answer
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err = s.opt.Get.Get(ctx, r)
	}()
	hurried := false
	select {
	case <-done:
	case <-s.asked:
		hurried = true
	case <-s.again:
		hurried = true
	}
	if hurried {
		cancel()
		<-done
		if err != nil {
			return upstream.Answer{}, errHurry
		}
	}
	return a, err
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// renewer is a Getter that knows of credential files. What somebody mended there
// is to count soon, however long the trouble has lasted.
type renewer interface{ Renewed() bool }

// pause waits and tells whether to go on. A read that is asked for comes
// sooner, unless the server is in trouble: then only an operator's order hurries.
func (s *Source) pause(ctx context.Context, p *pace, wait time.Duration, ended time.Time) bool {
	due := time.NewTimer(wait)
	defer due.Stop()
	asked := s.asked
	var mended <-chan time.Time
	if p.backoff.Failures > 0 || ended.IsZero() {
		asked = nil
		poll := time.NewTicker(upstream.CredentialPoll)
		defer poll.Stop()
		mended = poll.C
	}
	files, _ := s.opt.Get.(renewer)
	for begun := s.opt.Now(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return ctx.Err() == nil
		case <-s.again:
			p.quick = true
			return true
		case <-mended:
			if files != nil && files.Renewed() {
				return true
			}
		case <-asked:
			asked, p.quick = nil, true
			now := s.opt.Now()
			left := wait - now.Sub(begun)
			due.Reset(max(min(left, p.gap(now.Sub(ended))), 0))
		}
	}
}

// etag is the entity tag of the document that stands.
func (s *Source) etag() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		return ""
	}
	return s.taken.etag
}

// skewOf is how far the host's clock is ahead of the server's; nil: it did not
// say.
func skewOf(a upstream.Answer, err error) *time.Duration {
	var status *upstream.StatusError
	switch {
	case errors.As(err, &status) && !status.Date.IsZero():
		return &status.Skew
	case err == nil && !a.Date.IsZero():
		return &a.Skew
	}
	return nil
}
