package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// exchange is one request and what is made of its response.
type exchange struct {
	op      string
	method  string
	header  http.Header
	body    []byte
	limit   time.Duration // for the response header
	receive func(resp *http.Response, hide func(string) string) error
}

// call makes an attempt, and one more after a 401 if the credential files hold
// something else by then: it was refused in the middle of a rotation.
func (o *Origin) call(ctx context.Context, x exchange) error {
	keys, err := o.keys.current()
	if err == nil {
		err = o.attempt(ctx, keys, x)
		var status *StatusError
		if errors.As(err, &status) && status.Code == http.StatusUnauthorized {
			if next, e := o.keys.current(); e == nil && next.changes != keys.changes {
				keys, err = next, o.attempt(ctx, next, x)
			}
		}
	}
	o.used.Store(int64(keys.changes))
	if err != nil {
		return &Error{Op: x.op, URL: redact(o.url), Err: err}
	}
	return nil
}

// attempt makes one attempt, redirects within the origin included.
func (o *Origin) attempt(ctx context.Context, keys set, x exchange) error {
	ctx, cancel := context.WithTimeoutCause(ctx, x.limit+o.whole, ErrStalled)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, x.method, o.url.String(), bytes.NewReader(x.body))
	if err != nil {
		return plain(err)
	}
	req.Header = x.header
	req.Header.Set("User-Agent", o.opt.UserAgent)
	client := &http.Client{
		Transport: &stallTransport{
			base:   &guard{origin: o.url, token: keys.token, base: o.transport(keys)},
			header: x.limit,
			limit:  o.opt.Stall,
			now:    o.opt.Now,
		},
		CheckRedirect: followAlike,
	}
	hide := o.hider(keys.token)
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		err = x.receive(resp, hide)
	}
	if err != nil {
		return &hidden{text: shorten(hide(plain(err).Error())), err: plain(err)}
	}
	return nil
}

// transport gives the transport for keys. What was open with other keys or
// another CA is closed, now or soon after it comes to rest. Of two calls at once the
// one that read the files later decides.
func (o *Origin) transport(keys set) *http.Transport {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.base == nil || o.links < keys.links {
		if o.base != nil {
			o.base.CloseIdleConnections()
		}
		o.base, o.links = o.newTransport(keys), keys.links
	}
	return o.base
}

// hider gives a function that takes the origin's secrets out of a text: a
// server may repeat in an error what it was asked with.
func (o *Origin) hider(token secret) func(string) string {
	secrets := []string{token.reveal(), o.url.RawQuery}
	for pair := range strings.SplitSeq(o.url.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		decoded, _ := url.QueryUnescape(value)
		secrets = append(secrets, value, decoded)
	}
	var pairs []string
	for _, s := range secrets {
		if len(s) >= minSecret {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// minSecret is the least length of what hider takes out: less is no secret and
// would turn up in any text.
const minSecret = 4

// newTransport makes a transport with what keys hold. Its first TLS connection
// may be one to a proxy: that is not the origin, and is shown no certificate.
func (o *Origin) newTransport(keys set) *http.Transport {
	roots := keys.roots
	if roots == nil {
		roots = o.opt.RootCAs
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}}
	if keys.pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return keys.pair, nil }
	}
	t := newTransport(o.opt.Stall, config, o.opt.Proxy)
	t.DialTLSContext = dialTLS(newDialer(o.opt.Stall), o.url, config, o.opt.RootCAs)
	return t
}
