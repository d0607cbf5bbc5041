package virt

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// errRetired is a call that came when its session was over.
var errRetired = errors.New("the link was lost")

// do runs f on a connection for calls of that kind and waits for it until ctx
// ends, at most CallTimeout. When the wait ends first, f goes on and keeps its
// slot until libvirt returns: what f would have changed may yet happen. Between
// libvirt calls f looks at the context it gets.
func do[T any](ctx context.Context, c *Conn, of kind, w what, f func(context.Context, *link) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeout(ctx, c.opt.CallTimeout)
	defer cancel()
	// A context that is over starts nothing, whatever select would pick.
	if err := ctx.Err(); err != nil {
		return zero, w.fail(observe.Transient, err)
	}
	s := c.session.Load()
	if s == nil {
		return zero, c.disconnected(w)
	}
	l := s.lanes[of]
	ch, err := l.take(ctx, s)
	if err != nil {
		c.replace(s, l)
		return zero, c.refusal(w, err)
	}
	type outcome struct {
		value T
		err   error
	}
	back := make(chan outcome, 1)
	var fate fate
	go func() {
		value, err := f(ctx, ch.link)
		back <- outcome{value, ch.link.fail(w, err)}
		if !fate.settle() {
			c.unstick(ch)
		}
		ch.link.leave()
		<-ch.slots
	}()
	select {
	case o := <-back:
		return o.value, o.err
	case <-ctx.Done():
	}
	c.stick(ch)
	if !fate.settle() { // it came back after all
		c.unstick(ch)
		o := <-back
		return o.value, o.err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // not because the caller is stopping
		c.replace(s, l)
	}
	return zero, w.fail(observe.Transient, fmt.Errorf("no answer from libvirt: %w", ctx.Err()))
}

// stick counts a call whose caller goes away.
func (c *Conn) stick(ch *channel) {
	c.stuck.Add(1)
	ch.stuck.Add(1)
}

func (c *Conn) unstick(ch *channel) {
	c.stuck.Add(-1)
	ch.stuck.Add(-1)
}

// fate is decided by whoever settles it first: the call that came back or the
// caller that went away.
type fate struct{ settled atomic.Bool }

func (f *fate) settle() bool { return f.settled.CompareAndSwap(false, true) }

// onDomain runs f on the domain with that UUID, looked up for this call only.
func onDomain[T any](ctx context.Context, c *Conn, of kind, w what, f func(context.Context, *link, *libvirt.Domain) (T, error)) (T, error) {
	return do(ctx, c, of, w, func(ctx context.Context, k *link) (T, error) {
		d, err := k.conn.LookupDomainByUUIDString(w.object)
		if err != nil {
			var zero T
			return zero, err
		}
		c.hold(1)
		defer c.free(d)
		return f(ctx, k, d)
	})
}

// hold counts n handles got from libvirt; each must be given to free.
func (c *Conn) hold(n int) { c.handles.Add(int64(n)) }

// free gives a handle back. Unfreed handles pin their connection.
func (c *Conn) free(h interface{ Free() error }) {
	if err := h.Free(); err != nil {
		c.opt.Log.Error("libvirt handle not freed", "error", describe(err))
		return
	}
	c.handles.Add(-1)
}
