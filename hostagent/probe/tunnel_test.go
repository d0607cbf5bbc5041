package probe_test

import (
	"bufio"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
)

var tunnels = []string{probe.TypeConnect, probe.TypeSOCKS5}

func TestTunnelToATarget(t *testing.T) {
	t.Parallel()
	far := echo(t, false).Listener.Addr().String()
	for _, tt := range []struct{ dest, connect, socks5 string }{
		{"connectivity.example:443", "CONNECT connectivity.example:443", "3 connectivity.example 443"},
		{"192.0.2.1:80", "CONNECT 192.0.2.1:80", "1 192.0.2.1 80"},
		{"[2001:db8::1]:80", "CONNECT [2001:db8::1]:80", "4 2001:db8::1 80"},
	} {
		for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
			for _, typ := range tunnels {
				p := newProxy(t, far, "")
				got := probe.Prober{}.Probe(t.Context(), probe.Target{Addr: peer(t, listen, p.serve(typ)), Type: typ, Dest: tt.dest})
				if !got.OK || got.EgressAddress.IsValid() {
					t.Fatalf("%s to %s: got %+v, want OK", typ, tt.dest, got)
				}
				want := map[string]string{probe.TypeConnect: tt.connect, probe.TypeSOCKS5: tt.socks5}[typ]
				if d := cmp.Diff(want, <-p.asked); d != "" {
					t.Errorf("%s to %s: asked for (-want +got):\n%s", typ, tt.dest, d)
				}
			}
		}
	}
}

func TestFetchThroughATunnel(t *testing.T) {
	t.Parallel()
	plain, secure := echo(t, false), echo(t, true)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate()) // of example.com, 127.0.0.1 and ::1
	for _, tt := range []struct {
		name, url string
		roots     *x509.CertPool
		expect    int
		reason    string
	}{
		{"http", "http://connectivity.example:8080/ip", nil, 200, ""},
		{"http, other status", "http://connectivity.example/ip", nil, 204, probe.ReasonUnexpectedStatus},
		{"https", "https://example.com/ip", roots, 200, ""},
		{"https, IPv6 literal", "https://[::1]:8443/ip", roots, 200, ""},
		{"https, other host", "https://connectivity.example/ip", roots, 200, probe.ReasonBadCertificate},
		{"https, unknown authority", "https://example.com/ip", x509.NewCertPool(), 200, probe.ReasonBadCertificate},
		{"https, the system's roots", "https://example.com/ip", nil, 200, probe.ReasonBadCertificate},
	} {
		far := plain
		if strings.HasPrefix(tt.url, "https:") {
			far = secure
		}
		for _, typ := range tunnels {
			p := newProxy(t, far.Listener.Addr().String(), "u:p")
			got := probe.Prober{Roots: tt.roots}.Probe(t.Context(), probe.Target{
				Addr: peer(t, "127.0.0.1:0", p.serve(typ)), Type: typ, URL: tt.url, ExpectStatus: tt.expect, Credentials: credentials(t, "u:p"),
			})
			if got.Reason != tt.reason || got.OK != (tt.reason == "") {
				t.Errorf("%s by %s: got %+v, want reason %q", tt.name, typ, got, tt.reason)
			}
			if want := netip.MustParseAddr("203.0.113.7"); got.OK && got.EgressAddress != want {
				t.Errorf("%s by %s: egress address %s, want %s", tt.name, typ, got.EgressAddress, want)
			}
		}
	}
}

// hostile is what a server sends on a connection, whatever it is asked.
type hostile struct {
	name, typ, sends, want string
}

var hostiles = []hostile{
	{"503", "connect", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", probe.ReasonTunnelRefused},
	{"302", "connect", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", probe.ReasonTunnelRefused},
	{"407", "connect", "HTTP/1.1 407 Log in\r\nContent-Length: 0\r\n\r\n", probe.ReasonProxyAuthRequired},
	{"407", "http", "HTTP/1.1 407 Log in\r\nContent-Length: 0\r\n\r\n", probe.ReasonProxyAuthRequired},
	{"not HTTP", "connect", "SSH-2.0-OpenSSH_9.2\r\n", probe.ReasonBadResponse},
	{"half a header", "connect", "HTTP/1.1 200 OK\r\nX-Filler: a\r\n", probe.ReasonConnectionClosed},
	{"huge header", "connect", "HTTP/1.1 200 OK\r\nX-Filler: " + strings.Repeat("a", 1<<20), probe.ReasonBadResponse},
	{"endless headers", "connect", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<16), probe.ReasonBadResponse},
	{"endless interim answers", "connect", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1<<14), probe.ReasonBadResponse},
	{"204 opens a tunnel too", "connect", "HTTP/1.1 204 No Content\r\n\r\n", ""},
	{"a length that counts nothing", "connect", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", ""},
	{"SOCKS 4", "socks5", "\x00\x5a", probe.ReasonBadResponse},
	{"HTTP", "socks5", "HTTP/1.1 503 Service Unavailable\r\n\r\n", probe.ReasonBadResponse},
	{"one byte", "socks5", "\x05", probe.ReasonConnectionClosed},
	{"no method", "socks5", "\x05\xff", probe.ReasonProxyAuthRequired},
	{"a method nobody offered", "socks5", "\x05\x01", probe.ReasonBadResponse},
	{"a log-in nobody offered", "socks5", "\x05\x02", probe.ReasonBadResponse},
	{"reply of another version", "socks5", "\x05\x00\x04\x00", probe.ReasonBadResponse},
	{"refused", "socks5", "\x05\x00\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", probe.ReasonTunnelRefused},
	{"refused, and no more", "socks5", "\x05\x00\x05\x02", probe.ReasonTunnelRefused},
	{"refused with an unknown number", "socks5", "\x05\x00\x05\xfe", probe.ReasonTunnelRefused},
	{"short reply", "socks5", "\x05\x00\x05\x00\x00\x01\x00\x00", probe.ReasonConnectionClosed},
	{"short name", "socks5", "\x05\x00\x05\x00\x00\x03\xffabc", probe.ReasonConnectionClosed},
	{"unknown address type", "socks5", "\x05\x00\x05\x00\x00\x07", probe.ReasonBadResponse},
	{"bound to a name", "socks5", "\x05\x00\x05\x00\x00\x03\x01a\x00\x00", ""},
	{"bound to IPv4", "socks5", "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", ""},
}

// answering gives a peer that sends, byte by byte or at once, and closes in
// the way that loses nothing it sent.
func answering(sends string, slowly bool) func(net.Conn) {
	return func(conn net.Conn) {
		step := len(sends)
		if slowly {
			step = 1
		}
		for rest := sends; rest != ""; rest = rest[step:] {
			if _, err := io.WriteString(conn, rest[:step]); err != nil {
				return
			}
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		silent(conn)
	}
}

func targetOf(typ string) probe.Target {
	if typ == probe.TypeHTTP {
		return probe.Target{Type: typ, URL: askFor, ExpectStatus: 204}
	}
	return probe.Target{Type: typ, Dest: "connectivity.example:443"}
}

func TestI15_HostileProxies(t *testing.T) {
	t.Parallel()
	for _, tt := range hostiles {
		for _, slowly := range []bool{false, len(tt.sends) < 1<<10} {
			target := targetOf(tt.typ)
			target.Addr = peer(t, "127.0.0.1:0", answering(tt.sends, slowly))
			got := probe.Prober{Timeout: time.Minute}.Probe(t.Context(), target)
			if got.Reason != tt.want || got.OK != (tt.want == "") || got.Void() {
				t.Errorf("%s: %s (slowly: %t): got %+v, want reason %q", tt.typ, tt.name, slowly, got, tt.want)
			}
			if !got.OK && got.Detail == "" {
				t.Errorf("%s: %s: no detail", tt.typ, tt.name)
			}
		}
	}
}

func TestCase057_ProxiesThatListenButDoNotWork(t *testing.T) {
	t.Parallel()
	far := echo(t, false).Listener.Addr().String()
	for _, typ := range []string{probe.TypeHTTP, probe.TypeConnect, probe.TypeSOCKS5} {
		for _, tt := range []struct {
			name  string
			serve func(net.Conn)
			want  string
		}{
			{"accepts and closes", closing, probe.ReasonConnectionClosed},
			{"accepts and says nothing", silent, probe.ReasonTimeout},
			{"works", newProxy(t, far, "").serve(typ), ""},
		} {
			target := targetOf(typ)
			target.Addr = peer(t, "127.0.0.1:0", tt.serve)
			if typ == probe.TypeHTTP {
				target.ExpectStatus = 200
			}
			p := probe.Prober{Timeout: time.Minute}
			if tt.want == probe.ReasonTimeout {
				p.Timeout = 50 * time.Millisecond
			}
			if got := p.Probe(t.Context(), target); got.Reason != tt.want || got.OK != (tt.want == "") {
				t.Errorf("%s: %s: got %+v, want reason %q", typ, tt.name, got, tt.want)
			}
		}
	}
}

// A proxy that never ends what it begins is left at the deadline.
func TestI15_EndlessTrickleEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	begins := map[string]string{probe.TypeHTTP: "HTTP/1.1 204 OK\r\n", probe.TypeConnect: "HTTP/1.1 200 OK\r\n", probe.TypeSOCKS5: "\x05\x00\x05\x00\x00\x03\xff"}
	for typ, begin := range begins {
		target := targetOf(typ)
		target.Addr = peer(t, "127.0.0.1:0", func(conn net.Conn) {
			io.WriteString(conn, begin)
			silent(conn)
		})
		got := probe.Prober{Timeout: 50 * time.Millisecond}.Probe(t.Context(), target)
		if got.OK || got.Reason != probe.ReasonTimeout {
			t.Errorf("%s: got %+v, want %s", typ, got, probe.ReasonTimeout)
		}
	}
}

// What comes through an open tunnel is bounded and judged as without one.
func TestI15_HostileFarEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url, sends, want string
		stays                  bool
	}{
		{"closes", "http://connectivity.example/", "", probe.ReasonConnectionClosed, false},
		{"says nothing", "http://connectivity.example/", "", probe.ReasonTimeout, true},
		{"503", "http://connectivity.example/", "HTTP/1.1 503 No\r\n\r\n", probe.ReasonUnexpectedStatus, false},
		{"its own 407", "http://connectivity.example/", "HTTP/1.1 407 No\r\n\r\n", probe.ReasonUnexpectedStatus, false},
		{"endless headers", "http://connectivity.example/", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<16), probe.ReasonBadResponse, false},
		{"huge body", "http://connectivity.example/", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("a", 1<<20), "", true},
		{"TLS closes", "https://connectivity.example/", "", probe.ReasonConnectionClosed, false},
		{"TLS says nothing", "https://connectivity.example/", "", probe.ReasonTimeout, true},
		{"TLS garbage", "https://connectivity.example/", strings.Repeat("\x00garbage", 64), probe.ReasonBadResponse, false},
		{"no TLS", "https://connectivity.example/", "HTTP/1.1 400 Bad Request\r\n\r\n", probe.ReasonBadResponse, false},
		{"TLS alert", "https://connectivity.example/", "\x15\x03\x03\x00\x02\x02\x28", probe.ReasonBadResponse, false},
	} {
		opened := "HTTP/1.1 200 OK\r\n\r\n"
		addr := peer(t, "127.0.0.1:0", func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			if tt.stays {
				io.WriteString(conn, opened+tt.sends)
				silent(conn)
				return
			}
			answering(opened+tt.sends, false)(conn) // in one piece: it must not be lost behind the header
		})
		p := probe.Prober{Timeout: time.Minute}
		if tt.want == probe.ReasonTimeout {
			p.Timeout = 50 * time.Millisecond
		}
		got := p.Probe(t.Context(), probe.Target{Addr: addr, Type: probe.TypeConnect, URL: tt.url, ExpectStatus: 200})
		if got.Reason != tt.want || got.OK != (tt.want == "") {
			t.Errorf("%s: got %+v, want reason %q", tt.name, got, tt.want)
		}
	}
}

// Not parallel: it changes the environment.
func TestEnvironmentIsNotAsked(t *testing.T) {
	trapped := make(chan struct{}, 8)
	trap := peer(t, "127.0.0.1:0", func(net.Conn) { trapped <- struct{}{} })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "http://"+trap.String())
	}
	t.Setenv("NO_PROXY", "connectivity.example")
	t.Setenv("no_proxy", "connectivity.example")
	far := echo(t, false).Listener.Addr().String()
	for _, typ := range []string{probe.TypeHTTP, probe.TypeConnect, probe.TypeSOCKS5} {
		p := newProxy(t, far, "")
		got := probe.Prober{}.Probe(t.Context(), probe.Target{
			Addr: peer(t, "127.0.0.1:0", p.serve(typ)), Type: typ, URL: askFor, ExpectStatus: 200,
		})
		if !got.OK {
			t.Errorf("%s: got %+v, want OK by way of the probed proxy", typ, got)
		}
	}
	if len(trapped) > 0 {
		t.Error("the proxy of the environment was used")
	}
}
