package probe

import (
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
)

// connect asks the proxy for a tunnel (RFC 9110, section 9.3.6): any 2xx opens
// it, right after the header, whatever that says about a body.
func (j job) connect(conn net.Conn) (net.Conn, error) {
	authority := j.dest.String()
	req := &http.Request{
		Method: http.MethodConnect, Host: authority, URL: &url.URL{Host: authority},
		Header: http.Header{"User-Agent": {userAgent}},
	}
	if j.auth != nil {
		req.Header.Set(authHeader, j.auth.basic())
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	in := newAnswer(conn)
	resp, err := in.header(req)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return nil, j.authRequired()
	case resp.StatusCode/100 != 2:
		return nil, fail(ReasonTunnelRefused, "answered %s when asked to connect to %s", j.status(resp), authority)
	}
	in.bounded.N = math.MaxInt64 // what is read from here on has its own bounds
	return &tunnel{conn, in}, nil
}

// tunnel is a connection of which some bytes may have been read already.
type tunnel struct {
	net.Conn
	in io.Reader
}

// Read reads first what was read already.
func (t *tunnel) Read(b []byte) (int, error) { return t.in.Read(b) }

// useTunnel fetches the URL, if there is one, from the host that conn leads to.
func (j job) useTunnel(ctx context.Context, conn net.Conn) (Result, error) {
	if j.request == nil {
		return Result{OK: true}, nil
	}
	if j.request.URL.Scheme == "http" {
		return j.fetchDirectly(conn)
	}
	secure := tls.Client(conn, &tls.Config{ServerName: j.dest.host, RootCAs: j.roots})
	if err := secure.HandshakeContext(ctx); err != nil {
		return Result{}, err
	}
	return j.fetchDirectly(secure)
}
