package virt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Stats is how the link is doing.
type Stats = observe.LinkStats

// Conn is a link to libvirt that restores itself. Its methods may be called
// from any goroutine; while the link is down they fail at once with class
// Disconnected.
type Conn struct {
	opt     Options
	mail    *mailbox
	grace   time.Duration // closeGrace
	running atomic.Bool

	session atomic.Pointer[session] // nil while the link is down
	down    atomic.Pointer[string]  // why it is down, for people

	dialing *attempt // under way; touched by Run only

	mu    sync.Mutex
	links map[*link]struct{}    // not yet closed
	dials map[chan struct{}]int // under way, with how many connections; closed when they end

	handles      atomic.Int64 // libvirt objects held and not yet freed
	stuck        atomic.Int64
	connects     atomic.Uint64
	leaked       atomic.Uint64
	replacements atomic.Uint64
}

// New makes a Conn. It does no I/O: Run connects.
func New(opt Options) *Conn {
	c := &Conn{opt: opt.withDefaults(), mail: newMailbox(), grace: closeGrace, links: map[*link]struct{}{}, dials: map[chan struct{}]int{}}
	c.setDown("not connected yet")
	return c
}

// Events gives the hints from libvirt. There is one stream, for one reader; it
// is never closed. A reader that is slow loses events and gets one Overflow.
func (c *Conn) Events() <-chan observe.Event { return c.mail.out }

// Stats tells how the link is doing now.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	open := len(c.links)
	c.mu.Unlock()
	s := c.session.Load()
	return Stats{
		Connected: s != nil,
		Degraded:  s.degraded(),
		Replaced:  c.replacements.Load(),
		Open:      open,
		Stuck:     int(c.stuck.Load()),
		Connects:  c.connects.Load(),
		Leaked:    c.leaked.Load(),
		Handles:   c.handles.Load(),
	}
}

// stopping is why the link is down once Run ends.
const stopping = "the agent is stopping"

// closeGrace is how long Run waits at its end for connections to close. The
// rest is left to the end of the process.
const closeGrace = 2 * time.Second

// Run keeps the link up until ctx ends, then closes it. It returns an error
// only when no link can ever come up: the libvirt library cannot be loaded, or
// Run was called before.
func (c *Conn) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("run libvirt connection: it ran before, make a new one")
	}
	if err := process.acquire(c.opt.Log); err != nil {
		c.lose(err.Error())
		return err
	}
	defer process.release()
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		c.mail.forward(ctx)
	}()
	c.keepUp(ctx)
	c.lose(stopping)
	c.awaitClosed(c.grace)
	<-forwarded
	return nil
}

// keepUp connects, watches and connects again until ctx ends.
func (c *Conn) keepUp(ctx context.Context) {
	pause := backoff{min: c.opt.ReconnectMin, max: c.opt.ReconnectMax}
	for ctx.Err() == nil {
		s, err := c.connect(ctx)
		if err != nil && ctx.Err() != nil {
			return
		}
		if err != nil {
			c.lose(err.Error())
			pause.wait(ctx)
			continue
		}
		up := time.Now()
		c.connects.Add(1)
		c.session.Store(s)
		c.opt.Log.Info("connected to libvirt", "uri", c.opt.URI)
		c.mail.setLink(observe.Event{Kind: observe.Connected})
		reason := s.watch(ctx, newPulse(), c.opt.Keepalive)
		c.lose(reason)
		s.retire()
		// A link that fails at once must not make the pauses short again.
		if time.Since(up) > c.opt.ReconnectMax {
			pause.reset()
		}
		pause.wait(ctx)
	}
}

// lose records that the link is down and tells it once for each reason.
func (c *Conn) lose(reason string) {
	c.session.Store(nil)
	if *c.down.Load() == reason && c.mail.isLost() {
		return
	}
	c.setDown(reason)
	level := slog.LevelWarn
	if reason == stopping {
		level = slog.LevelInfo
	}
	c.opt.Log.Log(context.Background(), level, "no connection to libvirt", "uri", c.opt.URI, "reason", reason)
	c.mail.setLink(observe.Event{Kind: observe.LinkLost, Detail: reason})
}

func (c *Conn) setDown(reason string) { c.down.Store(&reason) }

// awaitClosed waits until every connection is closed, but not past grace: a
// call that never comes back keeps its connection open.
func (c *Conn) awaitClosed(grace time.Duration) {
	timeout := time.After(grace)
	for {
		// An attempt that ended just now may have opened some more.
		pending := c.openLinks()
		if len(pending) == 0 {
			return
		}
		for _, ended := range pending {
			select {
			case <-ended:
			case <-timeout:
				c.opt.Log.Warn("libvirt connections not closed in time, left to the end of the process",
					"connections", c.Stats().Open, "calls", c.Stats().Stuck)
				return
			}
		}
	}
}

// connectionsMost is how many connections there may be in all, those of sessions
// that are over included: they stay until their calls have come back.
const connectionsMost = int(kindEnd) * (1 + replacedMost)

// noteDial counts n connections that are being made, until ended is called;
// false when there is no room for so many.
func (c *Conn) noteDial(n int) (ended func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := len(c.links)
	for _, more := range c.dials {
		open += more
	}
	if open+n > connectionsMost {
		return nil, false
	}
	done := make(chan struct{})
	c.dials[done] = n
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.dials, done)
		close(done)
	}, true
}

// openLinks gives, for each connection not yet closed or yet to come, what
// tells its end.
func (c *Conn) openLinks() []<-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []<-chan struct{}
	for k := range c.links {
		open = append(open, k.closed)
	}
	for done := range c.dials {
		open = append(open, done)
	}
	return open
}

// disconnected is the error of a call that found no link.
func (c *Conn) disconnected(w what) error {
	return w.fail(observe.Disconnected, fmt.Errorf("no connection to libvirt at %s: %s", c.opt.URI, *c.down.Load()))
}
