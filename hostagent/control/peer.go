package control

import (
	"context"
	"errors"
	"net"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peer is who made a connection.
type peer struct {
	uid uint32
	err error // set when that can not be told
}

// peerKey is the context key of the connection's peer.
type peerKey struct{}

// peerFrom gives the peer of a request's connection; one without is nobody.
func peerFrom(ctx context.Context) peer {
	if p, ok := ctx.Value(peerKey{}).(peer); ok {
		return p
	}
	return peer{err: errors.New("the connection was not asked for its credentials")}
}

// peerOf asks the kernel, which noted it when the connection was made.
func peerOf(conn net.Conn) peer {
	if s, ok := conn.(*slotted); ok {
		conn = s.Conn
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return peer{err: errors.New("this kind of connection has no credentials")}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peer{err: err}
	}
	if failed != nil {
		return peer{err: failed}
	}
	if cred.Uid == noUID {
		return peer{err: errors.New("the kernel knows of no user behind this connection")}
	}
	return peer{uid: cred.Uid}
}

// nameTimeout bounds the wait for the host's user database, which may be on a
// network.
const nameTimeout = time.Second

// namer names users. A look-up can not be cancelled, so there is only one at a
// time.
type namer struct {
	lookup func(uid string) (*user.User, error)
	busy   chan struct{} // with room for one
}

func newNamer() *namer {
	return &namer{lookup: user.LookupId, busy: make(chan struct{}, 1)}
}

// name is the user's name, or "uid N" when that can not be told soon.
func (n *namer) name(ctx context.Context, uid uint32) string {
	if uid == 0 {
		return "root"
	}
	number := strconv.FormatUint(uint64(uid), 10)
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	select {
	case n.busy <- struct{}{}:
	case <-ctx.Done():
		return "uid " + number
	}
	found := make(chan string, 1)
	go func() {
		defer func() { <-n.busy }()
		name := "uid " + number
		if u, err := n.lookup(number); err == nil && u.Username != "" {
			name = u.Username
		}
		found <- name
	}()
	select {
	case name := <-found:
		return name
	case <-ctx.Done():
		return "uid " + number
	}
}
