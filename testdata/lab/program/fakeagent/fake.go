// Package fakeagent stands in for a QEMU guest agent, honest or not, at the
// far end of a running domain's channel, so that a test decides what libvirt
// hears from "the guest". It speaks the wire format and knows nothing of
// libvirt; starting domains and libvirtd is left to the test.
//
// The channel's unix socket is QEMU's: libvirtd connects to it by its path as
// soon as the guest has opened the port. A fake gets between the two so:
//
//  1. A domain runs a program that opens the port (mode Agent of the package
//     above), and libvirt shows the channel as connected.
//  2. [Take] removes the socket's file, whose path is in the live XML, and
//     listens there itself. QEMU keeps its own listener, which no path leads to.
//  3. libvirtd is killed and started again. It finds the port open, connects to
//     the path, and talks to the fake.
package fakeagent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
)

// Behaviour answers one request: a line without its newline. The answer is sent
// as it is, so a complete one ends in a newline; a nil one is silence. It is
// called from one goroutine for each connection.
type Behaviour func(request []byte) (answer []byte)

// Fake is a guest agent that listens. Its methods may be called from any goroutine.
type Fake struct {
	listener  net.Listener
	behaviour Behaviour
	running   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]struct{}
	requests map[string]int
	accepted int
}

// Take removes what is at socketPath, listens there instead, for everyone, and
// answers each connection by b. Close ends it.
func Take(socketPath string, b Behaviour) (*Fake, error) {
	if err := os.Remove(socketPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("take agent socket: %w", err)
	}
	listener, err := net.Listen("unix", socketPath)
	if err != nil {
		return nil, fmt.Errorf("take agent socket: %w", err)
	}
	if err := os.Chmod(socketPath, 0o777); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("take agent socket: %w", err)
	}
	f := &Fake{
		listener:  listener,
		behaviour: b,
		open:      make(map[net.Conn]struct{}),
		requests:  make(map[string]int),
	}
	f.running.Go(f.accept)
	return f, nil
}

// Close removes the socket, hangs up every connection and waits until nothing
// of the fake runs any more. A socket that is gone already is no error; a
// second Close is none either.
func (f *Fake) Close() error {
	f.mu.Lock()
	f.closed = true
	err := f.listener.Close()
	for conn := range f.open {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close agent socket: %w", err)
	}
	return nil
}

// Requests returns how many requests came for a command, such as
// "guest-network-get-interfaces"; for the empty string, how many came in all,
// unreadable ones included.
func (f *Fake) Requests(command string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[command]
}

// Connections returns how many connections came so far.
func (f *Fake) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted
}

// accept serves connections until the listener is closed.
func (f *Fake) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		if !f.keep(conn) {
			_ = conn.Close()
			return
		}
		f.running.Go(func() { f.serve(conn) })
	}
}

// keep notes a connection for Close to hang up. Returns false when Close came first.
func (f *Fake) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.accepted++
	f.open[conn] = struct{}{}
	return true
}

// serve answers requests until either side hangs up. A peer that does not take
// an answer holds up its own connection only.
func (f *Fake) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		delete(f.open, conn)
		f.mu.Unlock()
	}()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		f.count(lines.Bytes())
		if answer := f.behaviour(lines.Bytes()); answer != nil {
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

func (f *Fake) count(line []byte) {
	r, _ := parse(line)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[""]++
	if r.Execute != "" {
		f.requests[r.Execute]++
	}
}

// request is one command of the guest agent protocol (QEMU's
// docs/interop/qemu-ga-ref: JSON, a line each).
type request struct {
	Execute   string `json:"execute"`
	Arguments struct {
		ID json.Number `json:"id"`
	} `json:"arguments"`
}

// sentinel is the byte, never valid in UTF-8, that resets a JSON parser:
// guest-sync-delimited has the host send it before the request and the guest
// before the answer.
const sentinel = 0xff

func parse(line []byte) (r request, err error) {
	for len(line) > 0 && line[0] == sentinel {
		line = line[1:]
	}
	err = json.Unmarshal(line, &r)
	return r, err
}
