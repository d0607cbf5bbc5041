// Package probe owns the question whether a proxy works: one bounded attempt
// at one address, by connecting or by fetching a URL through the proxy.
//
// When to probe, how often, and what a failure means for a guest is left to
// the caller; nothing here retries or remembers.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Types of probes, by the names that specs use.
const (
	TypeTCP  = "tcp"  // connect, and nothing more
	TypeHTTP = "http" // fetch a URL through the proxy
)

// DefaultTimeout bounds a probe when Prober.Timeout is zero.
const DefaultTimeout = 5 * time.Second

// Reasons of a failed probe.
const (
	ReasonBadTarget        = "BadTarget"        // the target itself can not be probed; nothing was sent
	ReasonCanceled         = "Canceled"         // the caller gave up: says nothing about the proxy
	ReasonTimeout          = "Timeout"          // no complete answer before the deadline
	ReasonConnectRefused   = "ConnectRefused"   // nothing listens on the port
	ReasonUnreachable      = "Unreachable"      // no route to the address
	ReasonConnectFailed    = "ConnectFailed"    // any other failure to connect
	ReasonConnectionClosed = "ConnectionClosed" // accepted, then closed without a complete answer
	ReasonBadResponse      = "BadResponse"      // what came is not an acceptable HTTP answer
	ReasonUnexpectedStatus = "UnexpectedStatus" // an answer, but not with the expected status
)

// Target is what to probe and how.
type Target struct {
	Addr         netip.AddrPort // the proxy
	Type         string         // TypeTCP or TypeHTTP
	URL          string         // TypeHTTP: an absolute http URL to fetch through the proxy
	ExpectStatus int            // TypeHTTP: the status that counts as success
}

// Result is the outcome of one probe.
type Result struct {
	OK     bool
	Reason string // empty when OK, else one of the Reason constants
	// Detail says more, for people. A guest has a hand in it: it is at most
	// MaxDetail bytes, with everything that does not print escaped.
	Detail  string
	Latency time.Duration // from the start of the connect to the end of the probe
	// EgressAddress is the body of a successful ProbeHTTP answer when that is
	// nothing but an IP address, as address echo services give; else empty. It
	// is the proxy's claim: to be shown, not to be acted on.
	EgressAddress string
}

// Prober makes probes. The zero value is ready to use.
type Prober struct {
	Timeout time.Duration // of a whole probe; 0 means DefaultTimeout
}

// Probe makes one attempt at t. It ends at the Prober's timeout or with ctx,
// whichever is first, and leaves no goroutine or connection behind.
//
// A TypeTCP probe succeeds as soon as the connection is established: a
// peer that accepts and closes at once passes it. Only TypeHTTP tells
// whether a proxy answers.
func (p Prober) Probe(ctx context.Context, t Target) Result {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	r := attempt(ctx, t)
	r.Latency = time.Since(start)
	r.Detail = printable(r.Detail)
	return r
}

func attempt(ctx context.Context, t Target) Result {
	if !t.Addr.IsValid() || t.Addr.Port() == 0 {
		return Result{Reason: ReasonBadTarget, Detail: "the proxy has no address or no port"}
	}
	switch t.Type {
	case TypeTCP:
		return connect(ctx, t.Addr)
	case TypeHTTP:
		return fetch(ctx, t)
	default:
		return Result{Reason: ReasonBadTarget, Detail: fmt.Sprintf("unknown probe type %q", t.Type)}
	}
}

func connect(ctx context.Context, addr netip.AddrPort) Result {
	conn, err := dial(ctx, addr)
	if err != nil {
		return failure(err)
	}
	conn.Close()
	return Result{OK: true}
}

func dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// failure classifies what stopped a probe.
func failure(err error) Result {
	r := Result{Reason: reason(err), Detail: err.Error()}
	switch r.Reason {
	case ReasonTimeout:
		r.Detail = "no complete answer before the deadline"
	case ReasonConnectionClosed:
		r.Detail = "the peer closed the connection before its answer was complete"
	}
	return r
}

func reason(err error) string {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonConnectRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return ReasonUnreachable
	case errors.As(err, &op) && op.Op == "dial":
		return ReasonConnectFailed
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ReasonConnectionClosed
	default:
		return ReasonBadResponse
	}
}
