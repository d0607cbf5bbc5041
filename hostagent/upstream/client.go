package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Defaults of Options.
const (
	DefaultUserAgent  = "egress-hostagent"
	DefaultRetries    = 4
	DefaultBackoffMin = time.Second
	DefaultBackoffMax = 30 * time.Second
	DefaultStall      = 30 * time.Second
)

// Options of a Client. A zero field means its default.
type Options struct {
	UserAgent string
	RootCAs   *x509.CertPool // nil: the system's
	// Retries is how often a failed attempt is repeated within one call; a
	// negative value means never.
	Retries int
	// BackoffMin and BackoffMax bound the wait between attempts. BackoffMax
	// also caps what a server asks for by Retry-After.
	BackoffMin, BackoffMax time.Duration
	// Stall is how long an attempt may make no progress: no response header,
	// or less than minProgress bytes of body. There is no limit on the whole.
	Stall time.Duration
	Now   func() time.Time // nil: time.Now
	// Jitter gives a random duration in [0, n); nil: math/rand/v2.
	Jitter func(n time.Duration) time.Duration
}

// withDefaults fills in what o leaves open.
func (o Options) withDefaults() Options {
	if o.UserAgent == "" {
		o.UserAgent = DefaultUserAgent
	}
	if o.Retries == 0 {
		o.Retries = DefaultRetries
	}
	if o.BackoffMin <= 0 {
		o.BackoffMin = DefaultBackoffMin
	}
	if o.BackoffMax <= 0 {
		o.BackoffMax = DefaultBackoffMax
	}
	if o.Stall <= 0 {
		o.Stall = DefaultStall
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Jitter = random(o.Jitter)
	return o
}

// Client is an HTTPS client for bodies that must arrive whole. It is safe for
// concurrent use.
type Client struct {
	opt Options
	rt  http.RoundTripper
}

// New makes a Client. It does no I/O.
func New(opt Options) *Client {
	opt = opt.withDefaults()
	transport := newTransport(opt.Stall, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.RootCAs}, nil)
	return &Client{opt: opt, rt: &stallTransport{base: transport, header: opt.Stall, limit: opt.Stall, now: opt.Now}}
}

func (c *Client) http() *http.Client {
	return &http.Client{Transport: c.rt, CheckRedirect: checkRedirect}
}

// retrying gives the retry loop for one call. Its logger stays nil: the
// library would log URLs with their query strings, which may hold signatures.
func (c *Client) retrying() *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient:   c.http(),
		RetryWaitMin: c.opt.BackoffMin,
		RetryWaitMax: c.opt.BackoffMax,
		RetryMax:     max(c.opt.Retries, 0),
		CheckRetry:   checkRetry,
		Backoff:      c.backoff,
		ErrorHandler: c.giveUp,
	}
}
