package probe

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"unicode"
)

// job is a Target that can be probed: all that is wrong with one is found
// before a byte is sent.
type job struct {
	Target
	request *http.Request // of URL; nil: none
	dest    dest          // of TypeConnect and TypeSOCKS5
	auth    *credentials  // nil: none
	roots   *x509.CertPool
}

// dest is where a proxy is asked to connect to.
type dest struct {
	host string // a name, in ASCII, or an IP address without brackets
	port uint16
}

func (d dest) String() string { return net.JoinHostPort(d.host, strconv.Itoa(int(d.port))) }

func (p Prober) prepare(ctx context.Context, t Target) (job, error) {
	j := job{Target: t, roots: p.Roots}
	if !t.Addr.IsValid() || t.Addr.Port() == 0 {
		return j, fail(ReasonBadTarget, "the proxy has no address or no port")
	}
	var err error
	switch t.Type {
	case TypeTCP:
		return j, nil
	case TypeHTTP:
		j.request, err = request(ctx, t.URL, "http")
	case TypeConnect, TypeSOCKS5:
		err = j.prepareTunnel(ctx)
	default:
		err = fail(ReasonBadTarget, "unknown probe type %q", t.Type)
	}
	if err == nil && t.Credentials != "" {
		j.auth, err = readCredentials(t.Credentials)
	}
	return j, err
}

// prepareTunnel finds out where the proxy is to connect to.
func (j *job) prepareTunnel(ctx context.Context) (err error) {
	if j.URL == "" {
		host, port, err := net.SplitHostPort(j.Dest)
		if err != nil {
			return fail(ReasonBadTarget, "probe target: want HOST:PORT, with an IPv6 address in brackets")
		}
		j.dest, err = newDest(host, port)
		return err
	}
	if j.request, err = request(ctx, j.URL, "http", "https"); err != nil {
		return err
	}
	port := j.request.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[j.request.URL.Scheme]
	}
	j.dest, err = newDest(j.request.URL.Hostname(), port)
	return err
}

// maxHost is what a SOCKS5 request has room for, and more than a DNS name has.
const maxHost = 255

func newDest(host, port string) (dest, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return dest{}, fail(ReasonBadTarget, "what the proxy is to connect to has no port from 1 to 65535")
	}
	odd := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }
	addr, err := netip.ParseAddr(host)
	switch {
	case host == "" || len(host) > maxHost:
		return dest{}, fail(ReasonBadTarget, "what the proxy is to connect to has a host of %d bytes; want 1 to %d", len(host), maxHost)
	case err == nil && addr.Zone() != "":
		return dest{}, fail(ReasonBadTarget, "what the proxy is to connect to has a zone, which means nothing to the proxy")
	case slices.ContainsFunc([]rune(host), odd):
		return dest{}, fail(ReasonBadTarget, "what the proxy is to connect to is no plain ASCII name; write an international one as xn--…")
	}
	return dest{host, uint16(n)}, nil
}

// request makes a GET of target, which must have one of the schemes.
func request(ctx context.Context, target string, schemes ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fail(ReasonBadTarget, "probe url: %v", withoutURL(err))
	}
	if !slices.Contains(schemes, req.URL.Scheme) || req.URL.Hostname() == "" {
		return nil, fail(ReasonBadTarget, "probe url: want %s://HOST/…", schemes[len(schemes)-1])
	}
	req.Close = true
	req.Header.Set("User-Agent", userAgent)
	// A cached answer would tell that the proxy worked once.
	req.Header.Set("Cache-Control", "no-cache")
	return req, nil
}

// withoutURL takes the URL out of an error's text: it may hold credentials.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
