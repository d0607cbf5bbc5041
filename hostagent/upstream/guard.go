package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// guard shows the token to the origin, and lets nothing through to anybody
// else, wherever a redirect leads: it stands before the connections, which show
// the certificate.
type guard struct {
	origin *url.URL
	token  secret
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(g.origin, req.URL) {
		return nil, &RedirectError{To: redact(req.URL), Reason: "leads to another scheme, host or port, where credentials do not go: name the final URL in the configuration"}
	}
	if token := g.token.reveal(); token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return g.base.RoundTrip(req)
}

// dialTLS gives the dial function of a transport for origin: with config there,
// and with other roots and no certificate elsewhere, which is a proxy.
func dialTLS(d *net.Dialer, origin *url.URL, config *tls.Config, elsewhere *x509.CertPool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	own := net.JoinHostPort(strings.ToLower(origin.Hostname()), port(origin))
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c := config
		if strings.ToLower(addr) != own {
			c = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: elsewhere}
		}
		conn, err := (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, network, addr)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("connect: %w", ErrStalled) // the dialer's own time is up
		}
		return conn, err
	}
}
