// Package probe owns the question whether a proxy works: one bounded attempt
// at one address, by connecting to it or by making it do its work (fetch a URL,
// or connect to somewhere by HTTP CONNECT or SOCKS5).
//
// When to probe, how often, and what a failure means for a guest is left to
// the caller; nothing here retries or remembers.
package probe

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

// Types of probes, by the names that specs use.
const (
	TypeTCP     = "tcp"     // connect, and nothing more
	TypeHTTP    = "http"    // fetch a URL through the proxy
	TypeConnect = "connect" // have the proxy connect by HTTP CONNECT (RFC 9110, section 9.3.6)
	TypeSOCKS5  = "socks5"  // have the proxy connect by SOCKS version 5 (RFC 1928)
)

// DefaultTimeout bounds a probe when Prober.Timeout is zero.
const DefaultTimeout = 5 * time.Second

// Target is what to probe and how. It is comparable: equal targets are probed
// alike.
type Target struct {
	Addr         netip.AddrPort // the proxy
	Type         string         // one of the Type constants
	URL          string         // what to fetch: http; with TypeConnect and TypeSOCKS5 https too. Not with TypeTCP
	Dest         string         // TypeConnect and TypeSOCKS5 without URL: HOST:PORT, the connection to which is enough
	ExpectStatus int            // with URL: the status that counts as success
	// Credentials is the path of a file with one line "user:password" for the
	// proxy, read anew for each probe; empty: none. TypeTCP does not use it.
	Credentials string
}

// Result is the outcome of one probe.
type Result struct {
	OK     bool
	Reason string // empty when OK, else one of the Reason constants
	// Detail says more, for people. A guest has a hand in it: it is at most
	// MaxDetail bytes, with everything that does not print escaped, and quotes
	// nothing that came from a peer that was sent credentials.
	Detail  string
	Latency time.Duration // from the start of the probe to its end
	// EgressAddress is the body of the expected answer when that is nothing but
	// an IP address, as address echo services give; else it is not valid. It is
	// the proxy's claim: to be shown, not to be acted on.
	EgressAddress netip.Addr
}

// Void tells that the probe says nothing about the proxy: it could not be
// made, or the caller gave up.
func (r Result) Void() bool {
	switch r.Reason {
	case ReasonBadTarget, ReasonCredentialsMissing, ReasonBadCredentials, ReasonCanceled:
		return true
	}
	return false
}

// Prober makes probes. The zero value is ready to use.
type Prober struct {
	Timeout time.Duration  // of a whole probe; 0 means DefaultTimeout
	Roots   *x509.CertPool // what certificates of https URLs are verified with; nil: the system's
}

// Probe makes one attempt at t. It ends at the Prober's timeout or with ctx,
// whichever is first, and leaves no goroutine or connection behind.
//
// A TypeTCP probe succeeds as soon as the connection is established: a
// peer that accepts and closes at once passes it. Only the other types tell
// whether a proxy answers.
func (p Prober) Probe(ctx context.Context, t Target) Result {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	r := p.attempt(ctx, t)
	r.Latency = time.Since(start)
	r.Detail = printable(r.Detail)
	return r
}

func (p Prober) attempt(ctx context.Context, t Target) Result {
	j, err := p.prepare(ctx, t)
	if err != nil {
		return failure(err)
	}
	r, err := j.run(ctx)
	if err != nil {
		r = failure(err)
	}
	if j.auth != nil {
		r = unquoted(r)
	}
	return r
}

// run connects to the proxy and does the job there.
func (j job) run(ctx context.Context) (Result, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", j.Addr.String())
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	// The past as deadline ends a read or write that is under way.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	r, err := j.do(ctx, conn)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return r, err
}

func (j job) do(ctx context.Context, conn net.Conn) (Result, error) {
	switch j.Type {
	case TypeHTTP:
		return j.fetchByProxy(conn)
	case TypeConnect:
		tunnel, err := j.connect(conn)
		if err != nil {
			return Result{}, err
		}
		return j.useTunnel(ctx, tunnel)
	case TypeSOCKS5:
		if err := j.socks5(conn); err != nil {
			return Result{}, err
		}
		return j.useTunnel(ctx, conn)
	}
	return Result{OK: true}, nil
}
