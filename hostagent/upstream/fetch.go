package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// ProgressEvery is the shortest time between two calls of a progress function.
const ProgressEvery = 500 * time.Millisecond

// Restarter is a writer that can forget what was written to it. Fetch calls
// Restart before an attempt that follows one whose body broke off.
type Restarter interface{ Restart() error }

// Expecter is a writer that is told of each attempt's body before its first
// byte: the announced length, -1 if none is, and whether its end can be told
// from a connection that was cut (RFC 9112, section 8). An error of its ends
// Fetch, which then has transferred nothing for it.
type Expecter interface {
	Expect(total int64, framed bool) error
}

// Fetch writes the object at rawURL, an https URL, to w. It retries what can
// heal; a body that breaks off is fetched again from its start when w is a
// Restarter, and is an error otherwise. More than limit bytes are ErrTooLarge.
//
// progress, which may be nil, is called on the calling goroutine with the
// bytes of the current attempt and the expected total (-1: the server did not
// say), at most every ProgressEvery.
//
// A nil error means that the body was complete as far as HTTP can tell: a
// server that closes a connection without having announced a length can still
// have cut it short, so the caller checks a digest. Errors of w come back
// wrapped; all errors are of type *Error and hold no query string.
func (c *Client) Fetch(ctx context.Context, rawURL string, w io.Writer, limit int64, progress func(done, total int64)) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return &Error{Op: "fetch", URL: "(unreadable URL)", Err: ErrScheme}
	}
	if u.Scheme != "https" || u.Host == "" {
		return &Error{Op: "fetch", URL: redact(u), Err: ErrScheme}
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return &Error{Op: "fetch", URL: redact(u), Err: plain(err)}
	}
	req.Header.Set("User-Agent", c.opt.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if progress != nil {
		progress = Throttle(c.opt.Now, progress)
	}
	b := &body{w: w, limit: limit, progress: progress, now: c.opt.Now}
	req.SetResponseHandler(b.receive)
	// The handler has read and closed the body; what is left of resp is done.
	if _, err := c.retrying().Do(req); err != nil {
		return &Error{Op: "fetch", URL: redact(u), Err: plain(err)}
	}
	return nil
}

// body receives the bodies of one call's attempts.
type body struct {
	w        io.Writer
	limit    int64
	progress func(done, total int64)
	now      func() time.Time
	done     int64 // bytes of this attempt given to w
}

// receive reads one response. It always closes the body: the retry loop would
// otherwise wait for more of one that stalled.
func (b *body) receive(resp *http.Response) error {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return newStatusError(resp, b.now())
	}
	if len(codings(resp.Header)) > 0 {
		return ErrEncoded
	}
	if resp.ContentLength > b.limit {
		return fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, resp.ContentLength, b.limit)
	}
	if err := b.restart(); err != nil {
		return err
	}
	if e, ok := b.w.(Expecter); ok {
		framed := resp.ContentLength >= 0 || resp.ProtoMajor != 1 || len(resp.TransferEncoding) > 0
		if err := e.Expect(resp.ContentLength, framed); err != nil {
			return writeError{err}
		}
	}
	_, err := io.Copy(writerFunc(func(p []byte) (int, error) {
		return b.write(p, resp.ContentLength)
	}), resp.Body)
	return err
}

// restart makes the writer forget an earlier attempt's bytes.
func (b *body) restart() error {
	if b.done == 0 {
		return nil
	}
	r, ok := b.w.(Restarter)
	if !ok {
		return writeError{fmt.Errorf("body broke off after %d bytes and can not be fetched again", b.done)}
	}
	if err := r.Restart(); err != nil {
		return writeError{err}
	}
	b.done = 0
	return nil
}

// write passes p on, never more than the limit in all.
func (b *body) write(p []byte, total int64) (int, error) {
	if int64(len(p)) > b.limit-b.done {
		return 0, fmt.Errorf("%w of %d bytes", ErrTooLarge, b.limit)
	}
	n, err := b.w.Write(p)
	b.done += int64(n)
	if err != nil {
		return n, writeError{err}
	}
	if b.progress != nil {
		b.progress(b.done, total)
	}
	return n, nil
}

type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Throttle gives a progress function that passes on its first call, and later
// ones at least ProgressEvery after the last it passed on. It is for one
// goroutine.
func Throttle(now func() time.Time, progress func(done, total int64)) func(done, total int64) {
	var last time.Time
	return func(done, total int64) {
		at := now()
		if !last.IsZero() && at.Sub(last) < ProgressEvery {
			return
		}
		last = at
		progress(done, total)
	}
}
