package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

type backend func() status.Host

func (b backend) Status() status.Host { return b() }

func (b backend) Obey(context.Context, order.Order) (string, error) {
	return "", errors.New("this backend only answers questions")
}

var sample = status.Host{
	Host:       "kvm-1",
	HostID:     "0123456789abcdef",
	Time:       time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	Conditions: []status.Condition{{Type: status.LibvirtConnected, Status: status.True}},
	Proxies: []status.Proxy{
		{Name: "edge1", Phase: status.PhaseReady, Labels: map[string]string{"region": "eu"}},
		{Name: "edge2", Phase: status.PhaseStarting},
	},
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start serves b on a socket of its own and gives its path. The server is
// stopped, and must end, before the test does.
func start(t *testing.T, b control.Backend) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.sock")
	ln, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, ln, b, &control.Access{}, quiet()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v, want nil", err)
		}
	})
	return path
}

func TestStatusAndProxy(t *testing.T) {
	t.Parallel()
	c := control.Dial(start(t, backend(func() status.Host { return sample })))
	host, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample, host, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	proxy, err := c.Proxy(t.Context(), "edge2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample.Proxies[1], proxy, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("proxy (-want +got):\n%s", diff)
	}
	for _, name := range []string{"edge3", "a/b", "..", "", "edge1/", strings.Repeat("x", 3000)} {
		if _, err := c.Proxy(t.Context(), name); !errors.Is(err, control.ErrNotFound) {
			t.Errorf("proxy %.20q: error %v, want ErrNotFound", name, err)
		}
	}
}

// ask sends one request over the socket and gives the status, the Allow
// header and the error of the JSON body.
func ask(t *testing.T, path, method, target string) (code int, allow, problem string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://x"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Error string }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Errorf("%s %s: the body is not JSON: %v", method, target, err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s %s: content type %q, want application/json", method, target, got)
	}
	return resp.StatusCode, resp.Header.Get("Allow"), body.Error
}

func TestOnlyWhatExistsIsServed(t *testing.T) {
	t.Parallel()
	path := start(t, backend(func() status.Host { return sample }))
	tests := []struct {
		method, target string
		code           int
		allow          string
	}{
		{"GET", "/v1/status", 200, ""},
		{"GET", "/v1/proxies/edge1", 200, ""},
		{"GET", "/v1/proxies/nobody", 404, ""},
		{"GET", "/v1/proxies/", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/v2/status", 404, ""},
		{"POST", "/v1/status", 405, "GET"},
		{"DELETE", "/v1/proxies/edge1", 405, "GET"},
		{"PUT", "/nothing", 405, "GET"},
		{"GET", "/v1/orders", 405, "POST"},
		{"POST", "/v1/orders/", 405, "GET"},
	}
	for _, tt := range tests {
		code, allow, problem := ask(t, path, tt.method, tt.target)
		if code != tt.code || allow != tt.allow || (problem == "") != (code == 200) {
			t.Errorf("%s %s: got %d, Allow %q, error %q; want %d, Allow %q", tt.method, tt.target, code, allow, problem, tt.code, tt.allow)
		}
	}
}

func TestUnencodableStatusIsAnError(t *testing.T) {
	t.Parallel()
	bad := sample
	bad.Time = time.Date(math.MaxInt16, 1, 1, 0, 0, 0, 0, time.UTC) // RFC 3339 has four digits for the year
	_, err := control.Dial(start(t, backend(func() status.Host { return bad }))).Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("error %v, want one that shows status 500", err)
	}
}

func TestNotRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	leaveStale(t, stale)
	for _, path := range []string{filepath.Join(dir, "none.sock"), filepath.Join(dir, "no", "dir.sock"), stale} {
		_, err := control.Dial(path).Status(t.Context())
		if !errors.Is(err, control.ErrNotRunning) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want ErrNotRunning with the path", path, err)
		}
	}
}

func TestClientStopsWithItsContext(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	path := start(t, backend(func() status.Host {
		close(asked)
		<-release
		return sample
	}))
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := control.Dial(path).Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestClientBoundsAnswers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		srv.Serve(ln)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	if _, err := control.Dial(path).Status(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want one about the length", err)
	}
}

func TestI15_ServeEndsWithHungClientAndBackend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	ln, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(ctx, ln, backend(func() status.Host {
			close(asked)
			<-release
			return sample
		}), &control.Access{}, quiet())
	}()
	for _, text := range []string{"GET /v1/sta", "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, text)
	}
	<-asked
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve ended with %v, want nil", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestServeTellsWhenTheListenerBreaks(t *testing.T) {
	t.Parallel()
	ln, err := control.Listen(filepath.Join(t.TempDir(), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := control.Serve(t.Context(), ln, backend(func() status.Host { return sample }), &control.Access{}, quiet()); err == nil {
		t.Error("Serve on a closed listener: no error")
	}
}
