package manifest

import (
	"errors"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// Of the pace of requests.
const (
	firstWithin = 10 * time.Second // hosts that boot together do not ask together
	minGap      = 5 * time.Second  // between requests, whatever asks for one
	gapJitter   = time.Second      // on top of it
	fullEvery   = 50               // requests; every so many, one is unconditional
	fullAfter   = 24 * time.Hour   // and after this long at the latest
)

// pace decides what is asked and when. It has no clock; it is for one goroutine.
type pace struct {
	interval, wait time.Duration
	random         func(time.Duration) time.Duration
	backoff        upstream.Backoff

	good     int // requests answered since the last unconditional one
	full     time.Time
	offering bool // the server is asked to hold its answer back
	quick    bool // not this time
}

func newPace(o Options) pace {
	return pace{interval: o.Interval, wait: o.Wait, random: o.Random, backoff: upstream.Backoff{Jitter: o.Random}}
}

// request gives the next one. etag is that of the document that stands; "": none.
func (p *pace) request(etag string, now time.Time) upstream.Request {
	r := upstream.Request{Limit: MaxBody}
	// An unconditional one repairs whatever a tag that lies has done.
	if etag == "" || p.good >= fullEvery-1 || now.Sub(p.full) >= fullAfter {
		return r
	}
	r.ETag = etag
	if p.offering && !p.quick && p.wait > 0 {
		r.Wait = p.wait
	}
	return r
}

// outcome is how a request ended.
type outcome struct {
	err     error // nil: the document stands
	changed bool
	waited  bool          // the server says that it heeds Wait
	took    time.Duration // the request
	at      time.Time     // its end
}

// next gives the wait after a request.
func (p *pace) next(r upstream.Request, o outcome) time.Duration {
	p.quick = false
	if o.err != nil && !contentFault(o.err) {
		return p.backoff.Next(o.err)
	}
	p.backoff.Next(nil)
	if o.err == nil {
		p.count(r, o)
	}
	switch {
	case o.err != nil || r.Wait == 0 || !o.waited:
		return p.usual()
	case o.took >= r.Wait/2:
		return p.random(gapJitter)
	case o.changed:
		return p.gap(0)
	}
	return p.usual() // it says that it waits, and does not
}

// count takes note of a good answer. Whether a server holds answers back is
// asked once after each unconditional request.
func (p *pace) count(r upstream.Request, o outcome) {
	p.good++
	if r.ETag == "" {
		p.good, p.full, p.offering = 0, o.at, true
	} else if r.Wait > 0 {
		p.offering = o.waited
	}
}

// usual is the interval, give or take a fifth.
func (p *pace) usual() time.Duration {
	return upstream.Jitter(p.interval, 20, p.random)
}

// gap is what is left of the least time between requests, the last of which
// ended passed ago.
func (p *pace) gap(passed time.Duration) time.Duration {
	return max(minGap-passed, 0) + p.random(gapJitter)
}

// contentFault tells whether the server answered as it should, and only what
// it answered with is wrong: then it is asked again at the usual pace, for who
// mends a document wants to see it count.
func contentFault(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Reason != NotModified && f.Reason != NotKept
}
