package virt

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"libvirt.org/go/libvirt"
)

// link is one libvirt connection. It is closed when it is retired and no call
// is on it any more; closing a connection under a call is a use after free.
type link struct {
	conn      *libvirt.Connect
	session   *session
	callbacks []int         // event callbacks to deregister
	undefine  atomic.Uint32 // undefine flags the driver takes; 0 until known
	bounded   sync.Map      // UUID -> ID of the run whose agent timeout is set
	used      atomic.Bool
	lost      atomic.Pointer[string] // why, once it is
	closed    chan struct{}
	close     func()

	mu      sync.Mutex
	calls   int
	retired atomic.Bool // written under mu
}

// adopt takes over a connection made just now.
func (c *Conn) adopt(conn *libvirt.Connect, s *session) *link {
	k := &link{conn: conn, session: s, closed: make(chan struct{})}
	k.close = func() { c.closeLink(k) }
	c.mu.Lock()
	c.links[k] = struct{}{}
	c.mu.Unlock()
	return k
}

// report says that the connection is lost, and with it the session. What
// becomes of one that was given up already concerns nobody, and one that is not
// in use yet keeps it to itself until it is. It never blocks: libvirt's threads
// call it with libvirt's locks held.
func (k *link) report(reason string) {
	k.lost.CompareAndSwap(nil, &reason)
	if k.used.Load() && !k.retired.Load() {
		k.session.report(reason)
	}
}

// use puts the connection into use.
func (k *link) use() {
	k.used.Store(true)
	if reason := k.lost.Load(); reason != nil {
		k.session.report(*reason)
	}
}

// enter is the start of a call; false when the link is retired.
func (k *link) enter() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.retired.Load() {
		return false
	}
	k.calls++
	return true
}

// leave is the end of a call.
func (k *link) leave() {
	k.mu.Lock()
	k.calls--
	last := k.retired.Load() && k.calls == 0
	k.mu.Unlock()
	if last {
		k.close()
	}
}

// retire lets no more calls in and closes the link once the last is out. It
// does not wait for that: closing asks the daemon and may block.
func (k *link) retire() {
	k.mu.Lock()
	idle := !k.retired.Swap(true) && k.calls == 0
	k.mu.Unlock()
	if idle {
		go k.close()
	}
}

// alive tells whether the connection's socket is open, without a round trip.
func (k *link) alive() bool {
	alive, err := k.conn.IsAlive()
	return err == nil && alive
}

// dead tells whether a connection in use has lost its socket. Whoever replaces
// it meanwhile can not close it under this look.
func (k *link) dead() bool {
	if !k.enter() {
		return false
	}
	alive := k.alive()
	go k.leave() // which may close it, and that may block
	return !alive
}

// closeLink closes in the order that leaves no reference: event callbacks,
// close callback, connection. On a dead link the first fail at the daemon,
// after libvirt removed them on this side.
func (c *Conn) closeLink(k *link) {
	defer close(k.closed)
	for _, id := range k.callbacks {
		if err := k.conn.DomainEventDeregister(id); err != nil {
			c.opt.Log.Debug("event callback not deregistered", "error", describe(err))
		}
	}
	if err := k.conn.UnregisterCloseCallback(); err != nil {
		c.opt.Log.Debug("close callback not unregistered", "error", describe(err))
	}
	// libvirt keeps a reference while it dispatches an event, and drops the
	// callback's own only then.
	process.turn()
	refs, err := k.conn.Close()
	c.mu.Lock()
	delete(c.links, k)
	c.mu.Unlock()
	if err != nil || refs != 0 {
		c.leaked.Add(1)
		c.opt.Log.Error("libvirt connection closed with references left",
			"references", refs, slog.Any("error", err))
	}
}
