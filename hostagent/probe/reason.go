package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Reasons of a failed probe.
const (
	ReasonBadTarget          = "BadTarget"          // the target itself can not be probed; nothing was sent
	ReasonCredentialsMissing = "CredentialsMissing" // the file of credentials can not be read; nothing was sent
	ReasonBadCredentials     = "BadCredentials"     // what the file of credentials holds can not be used; nothing was sent
	ReasonCanceled           = "Canceled"           // the caller gave up: says nothing about the proxy
	ReasonTimeout            = "Timeout"            // no complete answer before the deadline
	ReasonConnectRefused     = "ConnectRefused"     // nothing listens on the port
	ReasonUnreachable        = "Unreachable"        // no route to the address
	ReasonConnectFailed      = "ConnectFailed"      // any other failure to connect to the proxy
	ReasonConnectionClosed   = "ConnectionClosed"   // accepted, then closed without a complete answer
	ReasonBadResponse        = "BadResponse"        // what came is not an acceptable answer
	ReasonProxyAuthRequired  = "ProxyAuthRequired"  // the proxy wants credentials, or others
	ReasonTunnelRefused      = "TunnelRefused"      // the proxy says that it does not or can not connect
	ReasonBadCertificate     = "BadCertificate"     // the https URL's host was not shown to be the one that answers
	ReasonUnexpectedStatus   = "UnexpectedStatus"   // an answer, but not with the expected status
)

// failed is an error that knows its reason.
type failed struct{ reason, detail string }

func (f *failed) Error() string { return f.detail }

func fail(reason, format string, args ...any) error {
	return &failed{reason, fmt.Sprintf(format, args...)}
}

// failure classifies what stopped a probe.
func failure(err error) Result {
	if known, ok := errors.AsType[*failed](err); ok {
		return Result{Reason: known.reason, Detail: known.detail}
	}
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
	var certificate *tls.CertificateVerificationError
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
	case errors.As(err, &certificate):
		return ReasonBadCertificate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ReasonConnectionClosed
	default:
		return ReasonBadResponse
	}
}

// unquoted replaces the details that quote a peer. One that was sent
// credentials could repeat them, in any form it likes.
func unquoted(r Result) Result {
	switch r.Reason {
	case ReasonBadResponse:
		r.Detail = "the answer is not acceptable; what it was is not shown, as credentials were sent"
	case ReasonBadCertificate:
		r.Detail = "the certificate does not hold; what it says is not shown, as credentials were sent"
	}
	return r
}
