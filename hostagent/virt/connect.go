package virt

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// attempt is one try to open a session.
type attempt struct{ result chan opened }

type opened struct {
	session *session
	err     error
}

// connect opens a session. libvirt may block in that for ever (a socket whose
// daemon does not accept), so there is at most one attempt at a time: after
// CallTimeout connect returns an error, and the next connect goes on waiting
// for the same attempt.
func (c *Conn) connect(ctx context.Context) (*session, error) {
	if c.dialing == nil {
		ended, ok := c.noteDial(int(kindEnd))
		if ok {
			c.dialing = &attempt{result: make(chan opened)}
			go c.attempt(ctx, c.dialing, ended)
		}
	}
	if c.dialing == nil {
		return nil, fmt.Errorf("connect to libvirt at %s: calls on %d earlier connections have not come back, so none is added; restart libvirtd (virtqemud) if it stays so, the VMs run on", c.opt.URI, c.Stats().Open)
	}
	timer := time.NewTimer(c.opt.CallTimeout)
	defer timer.Stop()
	select {
	case got := <-c.dialing.result:
		c.dialing = nil
		return got.session, got.err
	case <-timer.C:
		return nil, fmt.Errorf("connect to libvirt at %s: no answer yet, check that the daemon is not stopped", c.opt.URI)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Conn) attempt(ctx context.Context, a *attempt, ended func()) {
	defer ended()
	s, err := c.open()
	select {
	case a.result <- opened{s, err}:
	case <-ctx.Done():
		if s != nil {
			s.retire()
		}
	}
}

// open makes the connections of a session and registers its callbacks. What
// cannot be had is an error: half a session is none.
func (c *Conn) open() (*session, error) {
	s := newSession()
	for of, slots := range kindSlots {
		l := newLane(kind(of), ownState(c.opt.URI))
		var k *link
		if l.shared && of > 0 {
			k = s.lanes[0].now.Load().link
		} else {
			var err error
			if k, err = c.dial(s); err != nil {
				s.retire()
				return nil, err
			}
		}
		l.now.Store(newChannel(k, slots))
		s.lanes[of] = l
	}
	if err := c.subscribe(s.lanes[reads].now.Load().link); err != nil {
		s.retire()
		return nil, err
	}
	for _, l := range s.lanes {
		l.now.Load().link.use()
	}
	return s, nil
}

// dial makes one connection.
func (c *Conn) dial(s *session) (*link, error) {
	w := what{opConnect, c.opt.URI}
	conn, err := libvirt.NewConnect(c.opt.URI)
	if err != nil {
		return nil, w.wrap(err, false)
	}
	k := c.adopt(conn, s)
	if err := c.prepare(k, w); err != nil {
		k.retire()
		return nil, err
	}
	return k, nil
}

// prepare makes a connection tell of its end and checks who is at the other.
func (c *Conn) prepare(k *link, w what) error {
	err := k.conn.RegisterCloseCallback(func(_ *libvirt.Connect, reason libvirt.ConnectCloseReason) {
		k.report(closeReason(reason))
	})
	if err != nil && !errors.Is(err, libvirt.ERR_NO_SUPPORT) {
		return w.wrap(err, false)
	}
	v, err := k.conn.GetLibVersion()
	if err != nil {
		return w.wrap(err, false)
	}
	if err := checkVersion("daemon", v); err != nil {
		return w.fail(observe.Permanent, err)
	}
	return nil
}

func closeReason(reason libvirt.ConnectCloseReason) string {
	switch reason {
	case libvirt.CONNECT_CLOSE_REASON_EOF:
		return "libvirt closed the connection"
	case libvirt.CONNECT_CLOSE_REASON_KEEPALIVE:
		return "libvirt does not answer keepalives"
	case libvirt.CONNECT_CLOSE_REASON_CLIENT:
		return "the connection was closed here"
	default:
		return "the connection failed"
	}
}

// ownState tells whether each connection to uri has a state of its own, so that
// a session can have only one: libvirt's in-process test driver is like that,
// but for its default node, which all connections of the process share.
func ownState(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "test" && u.Path != "/default"
}
