package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tunnel is the handler of a proxy that leads everything to one server.
func tunnel(t *testing.T, to *server) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		far, err := net.Dial("tcp", to.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		// Answered before, it could have read what the client says next.
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer near.Close()
		if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		go func() {
			_, _ = io.Copy(far, near)
			far.Close()
		}()
		_, _ = io.Copy(near, far)
	}
}

// Invariant 12: a proxy reached over TLS may ask for a certificate; ours is for
// the origin behind it, and so is the token.
func TestI12_Case146_AProxyIsShownNoCredentials(t *testing.T) {
	t.Parallel()
	ca, proxyCA := newAuthority(t, "ca"), newAuthority(t, "proxy ca")
	s := newServerWith(t, ca.server("origin.example", ca), func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName + r.Header.Get("Authorization")))
	})
	config := proxyCA.server("proxy", nil)
	config.ClientAuth, config.NextProtos = tls.RequestClientCert, []string{"http/1.1"}
	proxy := newServerWith(t, config, tunnel(t, s))
	f := filesIn(t)
	cert, key := ca.issue("host-1", time.Hour)
	put(t, f.CA, ca.pem())
	put(t, f.Cert, cert)
	put(t, f.Key, key)
	put(t, f.Token, []byte("token"))
	o, err := NewOrigin("https://Origin.example/", OriginOptions{
		Files: f, RootCAs: proxyCA.pool(),
		Proxy: func(*http.Request) (*url.URL, error) {
			return &url.URL{Scheme: "https", Host: proxy.Listener.Addr().String(), User: url.UserPassword("user", "hush")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIdle(o)
	if got := ask(t, o); got != "host-1Bearer token" {
		t.Errorf("answer %q", got)
	}
	r := proxy.seen()[0]
	if len(r.TLS.PeerCertificates) != 0 || r.Header.Get("Authorization") != "" || r.Header.Get("Proxy-Authorization") == "" {
		t.Errorf("the proxy saw %d certificates and %v", len(r.TLS.PeerCertificates), r.Header)
	}
}

// Whatever is wrong with a proxy, its password is in no error.
func TestI12_Case146_NoProxyPasswordInAnError(t *testing.T) {
	t.Parallel()
	refuses := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		cut(t, w, "HTTP/1.1 407 the password hush is wrong\r\nContent-Length: 0\r\n\r\n")
	})
	closed := newServer(t, nil)
	closed.Close()
	with := func(s *server) Proxy {
		return func(*http.Request) (*url.URL, error) {
			return url.Parse("https://user:hush@" + s.Listener.Addr().String())
		}
	}
	tests := map[string]struct {
		proxy Proxy
		want  Class
	}{
		"refuses":    {with(refuses), Permanent},
		"is away":    {with(closed), Transient},
		"unreadable": {func(*http.Request) (*url.URL, error) { return nil, errors.New("http://user:hush@proxy") }, Permanent},
	}
	for name, tt := range tests {
		o, err := NewOrigin("https://origin.example/", OriginOptions{Proxy: tt.proxy, RootCAs: pool(refuses)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Get(t.Context(), Request{}); err == nil || ClassOf(err) != tt.want || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v is %v", name, err, ClassOf(err))
		}
	}
}

// envProxyCA names the CA file to the test that runs as a process of its own.
const envProxyCA = "UPSTREAM_TEST_CA"

// Case 146: HTTPS_PROXY and NO_PROXY count. net/http reads them once a process,
// so this needs a process of its own.
func TestCase146_ProxyEnvironment(t *testing.T) {
	if path := os.Getenv(envProxyCA); path != "" {
		askByEnvironment(t, path)
		return
	}
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := newServerWith(t, ca.server("origin.example", nil), func(_ int, w http.ResponseWriter, _ *http.Request) { w.Write([]byte("answer")) })
	proxy := newServerWith(t, ca.server("proxy", nil), tunnel(t, s))
	proxy.TLS.NextProtos = []string{"http/1.1"}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCase146_ProxyEnvironment$", "-test.v")
	path := put(t, filesIn(t).CA, ca.pem())
	cmd.Env = append(os.Environ(), envProxyCA+"="+path, "SSL_CERT_FILE="+path,
		"HTTPS_PROXY=https://user:hush@"+proxy.Listener.Addr().String(), "NO_PROXY=direct.invalid", "https_proxy=", "no_proxy=")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "hush") || !strings.Contains(string(out), "got answer") {
		t.Errorf("%v:\n%s", err, out)
	}
	var got []string
	for _, r := range proxy.seen() {
		got = append(got, r.Method+" "+r.Host)
	}
	if diff := cmp.Diff([]string{"CONNECT origin.example:443"}, got); diff != "" {
		t.Errorf("the proxy saw (-want +got):\n%s", diff)
	}
}

// askByEnvironment is what the process of its own does.
func askByEnvironment(t *testing.T, path string) {
	for host, ok := range map[string]bool{"origin.example": true, "direct.invalid": false} {
		o, err := NewOrigin("https://"+host+"/", OriginOptions{Files: Files{CA: path}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := o.Get(t.Context(), Request{Limit: 100})
		if (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
		fmt.Println("got", string(a.Body), err)
	}
}
