package virt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// replacedMost is how many connections of a lane that wait for calls nobody
// waits for any more there may be beside the one in use.
const replacedMost = 3

// lane is where the calls of one kind go. When none of its calls comes back,
// it gets another connection, but no more than replacedMost: then its calls
// fail at once, until libvirt answers one of those it holds.
type lane struct {
	kind   kind
	shared bool // its connection is another lane's too: there is no other
	now    atomic.Pointer[channel]

	mu        sync.Mutex
	replacing bool
	retired   bool
	old       []*link // given up, maybe not closed yet
	failed    time.Time
	refused   error         // why it got no other connection when it last needed one
	refusal   chan struct{} // closed when refused is set
}

func newLane(of kind, shared bool) *lane {
	return &lane{kind: of, shared: shared, refusal: make(chan struct{})}
}

// channel is a connection in use, with the slots of its calls.
type channel struct {
	link  *link
	slots chan struct{}
	stuck atomic.Int32  // slots whose caller went away
	gone  chan struct{} // closed when another took its place
}

func newChannel(k *link, slots int) *channel {
	return &channel{link: k, slots: make(chan struct{}, slots), gone: make(chan struct{})}
}

// exhausted tells whether nobody waits for any of the calls that hold slots.
func (ch *channel) exhausted() bool { return int(ch.stuck.Load()) >= cap(ch.slots) }

// take waits for a free slot and enters its connection.
func (l *lane) take(ctx context.Context, s *session) (*channel, error) {
	for {
		ch := l.now.Load()
		refusal, err := l.hopeless(ch)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", observe.ErrBusy, err)
		}
		select {
		case ch.slots <- struct{}{}:
		case <-ch.gone:
			continue
		case <-refusal:
			continue
		case <-s.done:
			return nil, errRetired
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: all %d %s wait for libvirt: %w", observe.ErrBusy, cap(ch.slots), l.kind, ctx.Err())
		}
		if ch.link.enter() {
			return ch, nil
		}
		<-ch.slots
		select {
		case <-ch.gone:
		default:
			return nil, errRetired
		}
	}
}

// hopeless gives the error of a lane whose connection is exhausted and could
// not be replaced: waiting for a slot would only hold the caller up. Otherwise
// it gives what tells that hope is gone.
func (l *lane) hopeless(ch *channel) (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil {
		return l.refusal, nil
	}
	if !ch.exhausted() {
		return nil, nil
	}
	return nil, fmt.Errorf("libvirt answers none of %d %s: %w", cap(ch.slots), l.kind, l.refused)
}

// degraded says, for people, what does not work; empty when it does.
func (l *lane) degraded() string {
	if _, err := l.hopeless(l.now.Load()); err != nil {
		return err.Error()
	}
	return ""
}

// settle says why there is no other connection, or that there is hope again.
// The caller holds mu.
func (l *lane) settle(refused error) {
	switch {
	case l.refused == nil && refused != nil:
		close(l.refusal)
	case l.refused != nil && refused == nil:
		l.refusal = make(chan struct{})
	}
	l.refused = refused
}

// mayReplace starts a replacement unless one is under way; false when there
// may be none. room takes a place among all connections, pause is how long a
// failed one keeps the next from being tried.
func (l *lane) mayReplace(room func() bool, pause time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replacing || l.retired || !l.now.Load().exhausted() || time.Since(l.failed) < pause {
		return false
	}
	l.old = slices.DeleteFunc(l.old, func(k *link) bool {
		select {
		case <-k.closed:
			return true
		default:
			return false
		}
	})
	switch {
	case l.shared:
		l.settle(errors.New("this connection can not be replaced"))
	case len(l.old) >= replacedMost:
		l.settle(fmt.Errorf("%d connections given up already", replacedMost))
	case !room():
		l.settle(errors.New("as many connections as there may be wait for such calls"))
	default:
		l.replacing = true
		l.settle(nil)
	}
	return l.replacing
}

// replaced ends a replacement: with a connection, or with the reason for none.
func (l *lane) replaced(k *link, err error) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replacing = false
	l.settle(err)
	if err != nil {
		l.failed = time.Now()
	}
	if err != nil || l.retired {
		return false
	}
	before := l.now.Load()
	l.old = append(l.old, before.link)
	l.now.Store(newChannel(k, cap(before.slots)))
	k.use()
	close(before.gone)
	before.link.retire()
	return true
}

func (l *lane) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	if ch := l.now.Load(); ch != nil {
		ch.link.retire()
	}
}

// replace gives a lane whose calls do not come back another connection. Making
// one may hang as well; meanwhile callers wait for a slot, and when it takes
// longer than a call may take, they are told so at once.
func (c *Conn) replace(s *session, l *lane) {
	var ended func()
	room := func() (ok bool) {
		ended, ok = c.noteDial(1)
		return ok
	}
	if !l.mayReplace(room, c.opt.ReconnectMax) {
		return
	}
	c.opt.Log.Debug("no call of this kind comes back from libvirt; replacing the connection", "kind", l.kind.String())
	late := time.AfterFunc(c.opt.CallTimeout, l.late)
	go func() {
		defer ended()
		k, err := c.dial(s)
		if err == nil && l.kind == reads {
			err = c.subscribe(k)
		}
		late.Stop()
		if !l.replaced(k, err) {
			c.opt.Log.Debug("the connection was not replaced", "kind", l.kind.String(), "error", err)
			if k != nil {
				k.retire()
			}
			return
		}
		c.replacements.Add(1)
		c.opt.Log.Warn("replaced a connection whose calls did not come back from libvirt", "kind", l.kind.String())
		if l.kind == reads { // events may have been lost in between
			c.mail.overflowed()
		}
	}()
}

// late makes callers stop waiting for a replacement that does not come.
func (l *lane) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replacing {
		l.settle(errors.New("libvirt does not answer a new connection either"))
	}
}

// refusal makes what take says the error of a call.
func (c *Conn) refusal(w what, err error) error {
	if errors.Is(err, errRetired) {
		return c.disconnected(w)
	}
	return w.fail(observe.Transient, err)
}
