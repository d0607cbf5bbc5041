package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// minProgress is how many bytes of a body count as progress: a server that
// sends one byte a second is stalled, too.
const minProgress = 4 << 10

// stallTransport ends an attempt that makes no progress for limit. The time a
// caller takes between reads does not count.
type stallTransport struct {
	base   http.RoundTripper
	header time.Duration // for the response header
	limit  time.Duration // for each minProgress of body
	now    func() time.Time
}

// CloseIdleConnections passes http.Client's request on; without it the client
// has no way to reach base's connections.
func (s *stallTransport) CloseIdleConnections() {
	if c, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (s *stallTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(s.header, func() { cancel(ErrStalled) })
	resp, err := s.base.RoundTrip(req.WithContext(ctx))
	if !timer.Stop() && err == nil {
		// A server that ends its answer because the client went away can win
		// against the cancellation: what it sends then is no answer.
		resp.Body.Close()
		err = ErrStalled
	}
	if err != nil {
		cancel(nil)
		return nil, stalled(ctx, err)
	}
	resp.Body = &stallBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, s: s}
	if _, err := url.Parse(resp.Header.Get("Location")); err != nil {
		// net/http would repeat the whole header in its error.
		resp.Body.Close()
		return nil, &RedirectError{To: "(unreadable URL)", Reason: "not followed"}
	}
	return resp, nil
}

// stalled replaces the error of a cancelled attempt by the reason.
func stalled(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// stallBody is a response body under the transport's limit. Its context is the
// attempt's own, which net/http wants alive until the body is closed.
type stallBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	s      *stallTransport
	spent  time.Duration // time in Read since the last progress
	got    int           // bytes since the last progress
}

// Read implements io.Reader.
func (b *stallBody) Read(p []byte) (int, error) {
	start := b.s.now()
	b.timer.Reset(b.s.limit - b.spent)
	n, err := b.ReadCloser.Read(p)
	late := !b.timer.Stop()
	b.spent += b.s.now().Sub(start)
	if b.got += n; b.got >= minProgress {
		b.got, b.spent = 0, 0
	}
	switch {
	case err == nil:
	case late: // an end that the cancellation brought about is none
		err = ErrStalled
	case !errors.Is(err, io.EOF):
		err = stalled(b.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *stallBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
