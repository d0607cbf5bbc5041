package probe_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
)

// proxy is a working proxy of one type, which connects to one backend whatever
// it is asked for and notes what that was.
type proxy struct {
	t        *testing.T
	backend  string
	user     string // "user:password" that it wants; empty: anybody
	asked    chan string
	loggedIn chan string
}

func newProxy(t *testing.T, backend, user string) proxy {
	return proxy{t, backend, user, make(chan string, 8), make(chan string, 8)}
}

func (p proxy) serve(typ string) func(net.Conn) {
	return map[string]func(net.Conn){
		probe.TypeHTTP: p.http, probe.TypeConnect: p.connect, probe.TypeSOCKS5: p.socks5,
	}[typ]
}

// allowed tells whether the request may be made, and answers it when not.
func (p proxy) allowed(conn net.Conn, req *http.Request) bool {
	header := http.Header{"Authorization": req.Header["Proxy-Authorization"]}
	user, password, given := (&http.Request{Header: header}).BasicAuth()
	if given {
		p.loggedIn <- user + ":" + password
	}
	if p.user != "" && user+":"+password != p.user {
		io.WriteString(conn, "HTTP/1.1 407 Who "+user+" "+password+"\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
		return false
	}
	return true
}

func (p proxy) http(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil || !p.allowed(conn, req) {
		return
	}
	p.asked <- req.URL.String()
	if far, err := net.Dial("tcp", p.backend); err == nil {
		req.Header.Del("Proxy-Authorization")
		_ = req.Write(far)
		p.pipe(conn, far)
	}
}

func (p proxy) connect(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil || !p.allowed(conn, req) {
		return
	}
	p.asked <- req.Method + " " + req.RequestURI
	far, err := net.Dial("tcp", p.backend)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	p.pipe(conn, far)
}

// socks5 is written from RFC 1928 and RFC 1929, apart from the code under test.
func (p proxy) socks5(conn net.Conn) {
	take := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(conn, b)
		return b
	}
	methods := take(int(take(2)[1]))
	want := byte(0)
	if p.user != "" {
		want = 2
	}
	if !bytes.Contains(methods, []byte{want}) {
		conn.Write([]byte{5, 255})
		return
	}
	conn.Write([]byte{5, want})
	if want == 2 {
		user := take(int(take(2)[1]))
		password := take(int(take(1)[0]))
		p.loggedIn <- string(user) + ":" + string(password)
		if string(user)+":"+string(password) != p.user {
			conn.Write([]byte{1, 1})
			return
		}
		conn.Write([]byte{1, 0})
	}
	kind := take(4)[3]
	host := ""
	switch kind {
	case 1, 4:
		addr, _ := netip.AddrFromSlice(take(map[byte]int{1: 4, 4: 16}[kind]))
		host = addr.String()
	case 3:
		host = string(take(int(take(1)[0])))
	}
	p.asked <- fmt.Sprintf("%d %s %d", kind, host, binary.BigEndian.Uint16(take(2)))
	far, err := net.Dial("tcp", p.backend)
	if err != nil {
		conn.Write([]byte{5, 5, 0, 1})
		return
	}
	conn.Write(append([]byte{5, 0, 0, 4}, make([]byte, 18)...))
	p.pipe(conn, far)
}

// pipe copies both ways until either side ends.
func (p proxy) pipe(near, far net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(far, near)
		far.Close()
	}()
	io.Copy(near, far)
	near.Close()
	far.Close()
	<-done
}

// echo is a far end that answers each request with an address.
func echo(t *testing.T, secure bool) *httptest.Server {
	t.Helper()
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the proxy's credentials reached the far end")
		}
		io.WriteString(w, "203.0.113.7\n")
	}))
	far.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		far.StartTLS()
	} else {
		far.Start()
	}
	t.Cleanup(far.Close)
	return far
}

// credentials writes a file of them and gives its path.
func credentials(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
