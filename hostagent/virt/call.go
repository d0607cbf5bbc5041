package virt

import (
	"context"
	"fmt"
	"sync/atomic"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// do runs f on a connection of lane l and waits for it until ctx ends, at most
// CallTimeout. When the wait ends first, f goes on and keeps its slot until
// libvirt returns: what f would have changed may yet happen. Between libvirt
// calls f looks at the context it gets.
func do[T any](ctx context.Context, c *Conn, l lane, w what, f func(context.Context, *link) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeout(ctx, c.opt.CallTimeout)
	defer cancel()
	k, release, err := c.slot(ctx, l, w)
	if err != nil {
		return zero, err
	}
	type outcome struct {
		value T
		err   error
	}
	back := make(chan outcome, 1)
	var fate fate
	go func() {
		value, err := f(ctx, k)
		back <- outcome{value, k.fail(w, err)}
		if !fate.settle() {
			c.stuck.Add(-1)
		}
		release()
	}()
	select {
	case o := <-back:
		return o.value, o.err
	case <-ctx.Done():
	}
	c.stuck.Add(1)
	if !fate.settle() { // it came back after all
		c.stuck.Add(-1)
		o := <-back
		return o.value, o.err
	}
	return zero, w.fail(observe.Transient, fmt.Errorf("no answer from libvirt: %w", ctx.Err()))
}

// fate is decided by whoever settles it first: the call that came back or the
// caller that went away.
type fate struct{ settled atomic.Bool }

func (f *fate) settle() bool { return f.settled.CompareAndSwap(false, true) }

// slot waits for a free slot of lane l and enters its connection.
func (c *Conn) slot(ctx context.Context, l lane, w what) (k *link, release func(), err error) {
	s := c.session.Load()
	if s == nil {
		return nil, nil, c.disconnected(w)
	}
	slots := s.lanes[l].slots
	k = s.lanes[l].link
	// A context that is over starts nothing, whatever select would pick.
	if err := ctx.Err(); err != nil {
		return nil, nil, w.fail(observe.Transient, err)
	}
	select {
	case slots <- struct{}{}:
	case <-s.done:
		return nil, nil, c.disconnected(w)
	case <-ctx.Done():
		return nil, nil, w.fail(observe.Transient, fmt.Errorf("all %d calls of this kind wait for libvirt: %w", cap(slots), ctx.Err()))
	}
	if !k.enter() {
		<-slots
		return nil, nil, c.disconnected(w)
	}
	return k, func() { k.leave(); <-slots }, nil
}

// onDomain runs f on the domain with that UUID, looked up for this call only.
func onDomain[T any](ctx context.Context, c *Conn, l lane, w what, f func(context.Context, *link, *libvirt.Domain) (T, error)) (T, error) {
	return do(ctx, c, l, w, func(ctx context.Context, k *link) (T, error) {
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
