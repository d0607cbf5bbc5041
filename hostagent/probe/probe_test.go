package probe_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const askFor = "http://connectivity.example/generate_204"

// peer answers each connection to a loopback address with serve until the
// test ends.
func peer(t *testing.T, listen string, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// says gives a peer that reads one request and writes answer.
func says(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, answer)
		}
	}
}

func silent(conn net.Conn) { io.Copy(io.Discard, conn) }

func closing(net.Conn) {}

func httpTarget(addr netip.AddrPort) probe.Target {
	return probe.Target{Addr: addr, Type: probe.TypeHTTP, URL: askFor, ExpectStatus: 204}
}

func TestCase57_OnlyTheRightAnswerIsReachable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		serve func(net.Conn)
		want  string // reason; empty for OK
	}{
		{"accepts and closes", closing, probe.ReasonConnectionClosed},
		{"accepts and says nothing", silent, probe.ReasonTimeout},
		{"503", says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), probe.ReasonUnexpectedStatus},
		{"200", says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), probe.ReasonUnexpectedStatus},
		{"redirect to what is wanted", says("HTTP/1.1 302 Found\r\nLocation: /generate_204\r\nContent-Length: 0\r\n\r\n"), probe.ReasonUnexpectedStatus},
		{"not HTTP", says("SSH-2.0-OpenSSH_9.2\r\n"), probe.ReasonBadResponse},
		{"huge header", says("HTTP/1.1 204 No Content\r\nX-Filler: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"), probe.ReasonBadResponse},
		{"half a header", says("HTTP/1.1 204 No Content\r\nX-Filler: a\r\n"), probe.ReasonConnectionClosed},
		{"endless interim answers", says(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1<<14)), probe.ReasonBadResponse},
		{"204 after an interim answer", says("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), ""},
		{"204", says("HTTP/1.1 204 No Content\r\n\r\n"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := probe.Prober{}
			if tt.want == probe.ReasonTimeout {
				p.Timeout = 50 * time.Millisecond
			}
			got := p.Probe(t.Context(), httpTarget(peer(t, "127.0.0.1:0", tt.serve)))
			if got.Reason != tt.want || got.OK != (tt.want == "") {
				t.Errorf("got %+v, want reason %q", got, tt.want)
			}
			if got.Latency <= 0 {
				t.Errorf("latency %v, want it measured", got.Latency)
			}
		})
	}
}

func TestProbeTCP(t *testing.T) {
	t.Parallel()
	var p probe.Prober
	for name, serve := range map[string]func(net.Conn){"closing": closing, "silent": silent} {
		got := p.Probe(t.Context(), probe.Target{Addr: peer(t, "127.0.0.1:0", serve), Type: probe.TypeTCP})
		if !got.OK || got.Reason != "" {
			t.Errorf("%s peer: got %+v, want OK", name, got)
		}
	}
	got := p.Probe(t.Context(), probe.Target{Addr: unusedPort(t), Type: probe.TypeTCP})
	if got.OK || got.Reason != probe.ReasonConnectRefused {
		t.Errorf("closed port: got %+v, want %s", got, probe.ReasonConnectRefused)
	}
}

// unusedPort gives a port of the loopback on which nothing listens.
func unusedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func TestRefusedHTTP(t *testing.T) {
	t.Parallel()
	got := probe.Prober{}.Probe(t.Context(), httpTarget(unusedPort(t)))
	if got.OK || got.Reason != probe.ReasonConnectRefused {
		t.Errorf("got %+v, want %s", got, probe.ReasonConnectRefused)
	}
}

func TestTypesAreThoseOfSpecs(t *testing.T) {
	t.Parallel()
	got := []string{probe.TypeTCP, probe.TypeHTTP, probe.TypeConnect, probe.TypeSOCKS5}
	want := []string{spec.ProbeTCP, spec.ProbeHTTP, spec.ProbeConnect, spec.ProbeSOCKS5}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("types (-want +got):\n%s", d)
	}
}

func TestBadTargets(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddrPort("127.0.0.1:9")
	for name, target := range map[string]probe.Target{
		"no address":     {Type: probe.TypeTCP},
		"port 0":         {Addr: netip.MustParseAddrPort("127.0.0.1:0"), Type: probe.TypeTCP},
		"no type":        {Addr: addr},
		"unknown type":   {Addr: addr, Type: "icmp"},
		"https":          {Addr: addr, Type: probe.TypeHTTP, URL: "https://connectivity.example/", ExpectStatus: 204},
		"relative":       {Addr: addr, Type: probe.TypeHTTP, URL: "/generate_204", ExpectStatus: 204},
		"no host":        {Addr: addr, Type: probe.TypeHTTP, URL: "http:///x", ExpectStatus: 204},
		"does not parse": {Addr: addr, Type: probe.TypeHTTP, URL: "http://[::1/", ExpectStatus: 204},
		"neither":        {Addr: addr, Type: probe.TypeConnect},
		"no port":        {Addr: addr, Type: probe.TypeConnect, Dest: "connectivity.example"},
		"port 0 there":   {Addr: addr, Type: probe.TypeConnect, Dest: "connectivity.example:0"},
		"high port":      {Addr: addr, Type: probe.TypeSOCKS5, Dest: "connectivity.example:65536"},
		"bare IPv6":      {Addr: addr, Type: probe.TypeSOCKS5, Dest: "2001:db8::1"},
		"zone":           {Addr: addr, Type: probe.TypeSOCKS5, Dest: "[fe80::1%eth0]:80"},
		"long name":      {Addr: addr, Type: probe.TypeSOCKS5, Dest: strings.Repeat("a", 256) + ":80"},
		"two lines":      {Addr: addr, Type: probe.TypeConnect, Dest: "a\r\nEvil: b:80"},
		"international":  {Addr: addr, Type: probe.TypeConnect, URL: "https://bücher.example/", ExpectStatus: 204},
		"ftp":            {Addr: addr, Type: probe.TypeSOCKS5, URL: "ftp://connectivity.example/", ExpectStatus: 204},
	} {
		got := probe.Prober{}.Probe(t.Context(), target)
		if got.OK || got.Reason != probe.ReasonBadTarget || got.Detail == "" || !got.Void() {
			t.Errorf("%s: got %+v, want %s with a detail", name, got, probe.ReasonBadTarget)
		}
	}
}

// The request must be in absolute form, with nothing of the host's in it, and
// the connection must not be offered for reuse.
func TestRequestForm(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		seen := make(chan string, 1)
		addr := peer(t, listen, func(conn net.Conn) {
			in := bufio.NewReader(conn)
			var head strings.Builder
			for {
				line, err := in.ReadString('\n')
				head.WriteString(line)
				if err != nil || line == "\r\n" {
					break
				}
			}
			seen <- head.String()
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		if got := (probe.Prober{}).Probe(t.Context(), httpTarget(addr)); !got.OK {
			t.Fatalf("%s: got %+v, want OK", listen, got)
		}
		head := <-seen
		if !strings.HasPrefix(head, "GET "+askFor+" HTTP/1.1\r\nHost: connectivity.example\r\n") {
			t.Errorf("%s: want a GET in absolute form, got:\n%s", listen, head)
		}
		if !strings.Contains(head, "\r\nConnection: close\r\n") {
			t.Errorf("%s: want no keep-alive, got:\n%s", listen, head)
		}
	}
}

func TestCanceledSaysNothingAboutTheProxy(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	addr := peer(t, "127.0.0.1:0", func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			asked <- struct{}{}
		}
		silent(conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	got := probe.Prober{Timeout: time.Minute}.Probe(ctx, httpTarget(addr))
	if got.OK || got.Reason != probe.ReasonCanceled {
		t.Errorf("got %+v, want %s", got, probe.ReasonCanceled)
	}
}

func TestI15_BodyIsBounded(t *testing.T) {
	t.Parallel()
	endless := func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		chunk := make([]byte, 4096)
		for {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}
	target := httpTarget(peer(t, "127.0.0.1:0", endless))
	target.ExpectStatus = 200
	if got := (probe.Prober{Timeout: time.Minute}).Probe(t.Context(), target); !got.OK {
		t.Errorf("got %+v, want OK after the bound", got)
	}

	stalls := says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	target.Addr = peer(t, "127.0.0.1:0", func(conn net.Conn) {
		stalls(conn)
		silent(conn)
	})
	got := probe.Prober{Timeout: 50 * time.Millisecond}.Probe(t.Context(), target)
	if got.OK || got.Reason != probe.ReasonTimeout {
		t.Errorf("stalled body: got %+v, want %s", got, probe.ReasonTimeout)
	}
}

func TestI17_DetailIsBoundedAndEscaped(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{
		"controls": "500 \x1b[2J\x07\u202eevil\xff",
		"long":     "500 " + strings.Repeat("ö", 4000),
	} {
		got := probe.Prober{}.Probe(t.Context(), httpTarget(peer(t, "127.0.0.1:0", says("HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n"))))
		if got.Reason != probe.ReasonUnexpectedStatus {
			t.Fatalf("%s: got %+v, want %s", name, got, probe.ReasonUnexpectedStatus)
		}
		if len(got.Detail) > probe.MaxDetail {
			t.Errorf("%s: detail of %d bytes, want at most %d", name, len(got.Detail), probe.MaxDetail)
		}
		if strings.ContainsAny(got.Detail, "\x1b\x07\u202e") || !utf8.ValidString(got.Detail) || !strings.HasPrefix(got.Detail, "answered 500 ") {
			t.Errorf("%s: detail %q, want it escaped", name, got.Detail)
		}
	}
}

func TestHalfABodyIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	target := httpTarget(peer(t, "127.0.0.1:0", says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")))
	target.ExpectStatus = 200
	got := probe.Prober{}.Probe(t.Context(), target)
	if got.OK || got.Reason != probe.ReasonConnectionClosed {
		t.Errorf("got %+v, want %s", got, probe.ReasonConnectionClosed)
	}
}

// The status decides at once: a body that never comes is not waited for.
func TestWrongStatusEndsTheProbe(t *testing.T) {
	t.Parallel()
	answer := says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 10\r\n\r\n")
	ended := make(chan struct{})
	addr := peer(t, "127.0.0.1:0", func(conn net.Conn) {
		answer(conn)
		silent(conn)
		close(ended)
	})
	got := probe.Prober{Timeout: time.Hour}.Probe(t.Context(), httpTarget(addr))
	if got.OK || got.Reason != probe.ReasonUnexpectedStatus {
		t.Errorf("got %+v, want %s", got, probe.ReasonUnexpectedStatus)
	}
	<-ended
}

func TestEgressAddress(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"203.0.113.7\n":      "203.0.113.7",
		" 2001:db8:0::1\r\n": "2001:db8::1",
		"::ffff:203.0.113.7": "203.0.113.7",
		"fe80::1%\x1b[2J":    "",
		"203.0.113.7 x":      "",
		"":                   "",
	} {
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		target := httpTarget(peer(t, "127.0.0.1:0", says(answer)))
		target.ExpectStatus = 200
		got := probe.Prober{}.Probe(t.Context(), target)
		var addr netip.Addr
		if want != "" {
			addr = netip.MustParseAddr(want)
		}
		if !got.OK || got.EgressAddress != addr {
			t.Errorf("body %q: got %+v, want egress address %q", body, got, want)
		}
	}
}

func TestErrorsDoNotShowCredentialsOfTheURL(t *testing.T) {
	t.Parallel()
	target := httpTarget(unusedPort(t))
	for _, target.URL = range []string{"http://user:hunter2@connectivity.example/", "http://user:hunter2@connectivity.example:port/"} {
		got := probe.Prober{}.Probe(t.Context(), target)
		if got.OK || strings.Contains(got.Detail, "hunter2") {
			t.Errorf("%s: got %+v, want a failure without the password", target.URL, got)
		}
	}
}
