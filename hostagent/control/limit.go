package control

import (
	"net"
	"sync"
)

// limited accepts no more connections than it has slots.
type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limit(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotted{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener; it ends an Accept that waits for a slot.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type slotted struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *slotted) Close() error {
	defer c.free()
	return c.Conn.Close()
}
