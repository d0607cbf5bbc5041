package upstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// server is a TLS server that counts and keeps its requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func newServer(t *testing.T, h func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	return newServerWith(t, nil, h)
}

// newServerWith takes what the server shows and asks for; nil: httptest's own.
// It speaks HTTP/2 to who wants it.
func newServerWith(t *testing.T, config *tls.Config, h func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		n := len(s.requests)
		s.mu.Unlock()
		h(n, w, r)
	}))
	s.TLS, s.EnableHTTP2 = config, config != nil
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

// client believes the servers and waits for next to nothing.
func client(s ...*server) *Client {
	pool := x509.NewCertPool()
	for _, s := range s {
		pool.AddCert(s.Certificate())
	}
	return New(Options{
		RootCAs:    pool,
		Retries:    3,
		BackoffMin: time.Millisecond,
		BackoffMax: 5 * time.Millisecond,
	})
}

// sink is a Restarter that fails when told to.
type sink struct {
	bytes.Buffer
	restarts int
	fail     error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	return s.Buffer.Write(p)
}

func (s *sink) Restart() error {
	s.restarts++
	s.Reset()
	return nil
}

var errTest = errors.New("test")

// cut sends a raw response and closes the connection. A client that has read
// enough may be gone before.
func cut(t *testing.T, w http.ResponseWriter, raw string) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	var gone *net.OpError
	if _, err := buf.WriteString(raw); err != nil && !errors.As(err, &gone) {
		t.Error(err)
	}
	if err := buf.Flush(); err != nil && !errors.As(err, &gone) {
		t.Error(err)
	}
	conn.Close()
}
