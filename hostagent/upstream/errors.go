package upstream

import (
	"errors"
	"fmt"
	"net/url"
)

// Facts about a response that no retry changes.
var (
	// ErrTooLarge: the body is larger than the caller's limit.
	ErrTooLarge = errors.New("body is larger than the limit")
	// ErrEncoded: the body came with a content coding that was not asked for.
	ErrEncoded = errors.New("body has a content coding that was not asked for: turn it off at the server")
	// ErrScheme: the URL is not https.
	ErrScheme = errors.New("only https URLs with a host are fetched")
)

// ErrStalled means that an attempt made no progress for Options.Stall.
var ErrStalled = errors.New("no progress, connection given up")

// RedirectError is a redirect that is not followed.
type RedirectError struct {
	To     string // without query and credentials
	Reason string
}

// Error implements error.
func (e *RedirectError) Error() string { return fmt.Sprintf("redirect to %s: %s", e.To, e.Reason) }

// Error is a failed call.
type Error struct {
	Op  string // "fetch"
	URL string // without query and credentials
	Err error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// writeError marks an error of the caller's writer, which is not the server's
// fault and not retried.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// hidden is an error whose text may hold what a peer sent: it shows a text
// without secrets instead.
type hidden struct {
	text string
	err  error
}

// Error implements error.
func (h *hidden) Error() string { return h.text }

// Unwrap gives the cause.
func (h *hidden) Unwrap() error { return h.err }

// Redact gives a URL without its query and userinfo, for people.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(unreadable URL)"
	}
	return redact(u)
}

// redact gives a URL for people: its query may hold a signature, its userinfo
// a password.
func redact(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shorten(shown.String())
}

// plain takes the wrappers off that would print a whole URL.
func plain(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err
}
