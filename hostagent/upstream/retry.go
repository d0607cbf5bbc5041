package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// checkRetry decides about one more attempt. It is asked after the response
// header, and again with the error of reading the body. The library's own
// policy decides by error text, and repeats a request whose server will not
// change its mind.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return transient(err), nil
	}
	return retryStatus(resp.StatusCode), nil
}

// transient tells whether another attempt can end differently.
func transient(err error) bool {
	for _, final := range []error{ErrTooLarge, ErrEncoded, ErrScheme, ErrProxySettings} {
		if errors.Is(err, final) {
			return false
		}
	}
	var (
		status   *StatusError
		proxy    *ProxyError
		redirect *RedirectError
		write    writeError
		cert     *tls.CertificateVerificationError
		name     x509.HostnameError
		unknown  x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &status):
		return retryStatus(status.Code)
	case errors.As(err, &proxy):
		return retryStatus(proxy.Code)
	case errors.As(err, &redirect), errors.As(err, &write),
		errors.As(err, &cert), errors.As(err, &name), errors.As(err, &unknown):
		return false
	}
	return true
}

// retryStatus tells whether a status speaks of the moment and not of the object.
func retryStatus(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return code >= 500
}

// backoff gives the wait before the next attempt: full jitter under an
// exponential bound, or what the server asks for by Retry-After, never more
// than longest. The library's own obeys any Retry-After.
func (c *Client) backoff(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
	wait := c.opt.Jitter(doubled(shortest, longest, attempt) + 1)
	if resp != nil && retryStatus(resp.StatusCode) {
		if asked, ok := retryAfter(resp.Header.Get("Retry-After"), c.opt.Now()); ok {
			wait += asked
		}
	}
	return min(wait, longest)
}

// MaxRetryAfter is the longest wait that a server can ask for.
const MaxRetryAfter = time.Hour

// retryAfter reads the header's two forms (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	// A number that is out of range comes back as the largest one.
	if n, err := strconv.ParseUint(value, 10, 63); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(MaxRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}

// giveUp turns the library's last state into an error of ours; the library's
// own names the URL with its query. Nothing is read from the body any more: it
// may never end.
func (c *Client) giveUp(resp *http.Response, err error, _ int) (*http.Response, error) {
	if resp != nil {
		resp.Body.Close()
	}
	if err == nil && resp != nil {
		err = newStatusError(resp, c.opt.Now())
	}
	return nil, plain(err)
}
