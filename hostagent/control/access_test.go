package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

type obeyFunc func(context.Context, order.Order) (string, error)

func (obeyFunc) Status() status.Host { return status.Host{Host: "kvm-1"} }

func (f obeyFunc) Obey(ctx context.Context, o order.Order) (string, error) { return f(ctx, o) }

// signer answers with who gave the order.
var signer = obeyFunc(func(_ context.Context, o order.Order) (string, error) { return o.By, nil })

// serveOn runs s on ln until the test ends.
func serveOn(t *testing.T, s *server, ln net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v, want nil", err)
		}
	})
}

// clientOf asks over connections that dial makes.
func clientOf(dial func() (net.Conn, error)) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial() },
		DisableKeepAlives: true,
	}}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

const strangerUID uint32 = 54321 // has no name

// connectAsStranger connects to path as a user who is not root, and tells which.
// As root it is strangerUID; a test that is not root is somebody else anyway.
func connectAsStranger(t *testing.T, path string) (conn net.Conn, uid uint32) {
	t.Helper()
	become, uid := func() error { return nil }, uint32(os.Geteuid())
	if uid == 0 {
		uid = strangerUID
		become = func() error { // this thread only, as the system call itself does
			const keep = ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(strangerUID), keep); errno != 0 {
				return errno
			}
			return nil
		}
	}
	onThread(t, become, func() {
		var err error
		if conn, err = net.Dial("unix", path); err != nil {
			t.Errorf("connect as uid %d: %v", uid, err)
		}
	})
	if conn == nil {
		t.FailNow()
	}
	return conn, uid
}

// openSocket listens where everybody comes through.
func openSocket(t *testing.T) (net.Listener, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o711, dir: 0o711, path: 0o666} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	return ln, path
}

func TestOnlySomeMayOrder(t *testing.T) {
	t.Parallel()
	stranger := strangerUID
	if os.Geteuid() != 0 {
		stranger = uint32(os.Geteuid())
	}
	for _, tt := range []struct {
		name    string
		access  *Access
		self    uint32
		allowed bool
	}{
		{"a stranger", &Access{}, stranger + 1, false},
		{"others are admins", admins(stranger+2, stranger+3), stranger + 1, false},
		{"an admin", admins(stranger+2, stranger), stranger + 1, true},
		{"the agent's own user", &Access{}, stranger, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			given := make(chan order.Order, 1)
			s := newServer(obeyFunc(func(_ context.Context, o order.Order) (string, error) {
				given <- o
				return "done", nil
			}), tt.access, discard())
			s.self = tt.self
			ln, path := openSocket(t)
			serveOn(t, s, ln)
			name := s.names.name(t.Context(), stranger)

			c := clientOf(func() (net.Conn, error) {
				conn, _ := connectAsStranger(t, path)
				return conn, nil
			})
			text, err := c.Order(t.Context(), order.Order{Verb: order.Pause, All: true})
			if !tt.allowed {
				if !errors.Is(err, ErrNotAllowed) || len(given) > 0 {
					t.Errorf("error %v, given %d orders; want ErrNotAllowed and none", err, len(given))
				}
				for _, part := range []string{name, "uid " + strconv.Itoa(int(stranger)), "ask root", "admins in [control]"} {
					if err != nil && !strings.Contains(err.Error(), part) {
						t.Errorf("error %v, want it to say %q", err, part)
					}
				}
			} else if err != nil || text != "done" || (<-given).By != name {
				t.Errorf("%q, %v; want it obeyed for %s", text, err, name)
			}
			if h, err := c.Status(t.Context()); err != nil || h.Host != "kvm-1" {
				t.Errorf("reading: %+v, %v; want it open to everybody", h, err)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uid  uint32
		want bool
	}{{0, true}, {990, true}, {1000, true}, {1001, false}, {overflowUID, false}, {noUID, false}} {
		if got := admins(1000).allows(tt.uid, 990); got != tt.want {
			t.Errorf("uid %d: %t, want %t", tt.uid, got, tt.want)
		}
	}
	if peerFrom(t.Context()).err == nil {
		t.Error("a request without a peer passes for one of uid 0")
	}
}

// pipes is a listener whose connections tell nothing about who made them.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() (net.Conn, error) {
	a, b := net.Pipe()
	p.made <- b
	return a, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func TestWhoCanNotBeToldMayOnlyRead(t *testing.T) {
	t.Parallel()
	ln := newPipes()
	serveOn(t, newServer(signer, &Access{}, discard()), ln)
	c := clientOf(ln.dial)
	if _, err := c.Order(t.Context(), order.Order{Verb: order.Pause, All: true}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("error %v, want ErrNotAllowed", err)
	}
	if h, err := c.Status(t.Context()); err != nil || h.Host != "kvm-1" {
		t.Errorf("reading: %+v, %v", h, err)
	}
}

func TestLookupUIDs(t *testing.T) {
	t.Parallel()
	got, err := LookupUIDs([]string{"root", "no-such-user", "1234", "65534", "-1", "4294967295", "99999999999", "0"})
	if diff := cmp.Diff([]uint32{0, 1234, 0}, got); diff != "" {
		t.Errorf("uids (-want +got):\n%s", diff)
	}
	for _, name := range []string{`"no-such-user"`, `"65534"`, `"-1"`, `"4294967295"`, `"99999999999"`} {
		if err == nil || strings.Count(err.Error(), name) != 1 {
			t.Errorf("error %v, want it to name %s", err, name)
		}
	}
	if got, err := LookupUIDs(nil); got != nil || err != nil {
		t.Errorf("of nobody: %v, %v", got, err)
	}
}

func TestI15_AHungUserDatabaseDelaysOnlyALittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		free := make(chan struct{})
		n := newNamer()
		n.lookup = func(uid string) (*user.User, error) {
			calls.Add(1)
			<-free
			return &user.User{Username: "alice"}, nil
		}
		begin := time.Now()
		for range 3 {
			if got := n.name(t.Context(), 1000); got != "uid 1000" {
				t.Errorf("a user whose name is not to be had is called %q", got)
			}
		}
		if calls.Load() != 1 || time.Since(begin) != 3*nameTimeout {
			t.Errorf("%d look-ups at once for %s, want 1 and a second each", calls.Load(), time.Since(begin))
		}
		if got := n.name(t.Context(), 0); got != "root" {
			t.Errorf("uid 0 is called %q", got)
		}
		close(free)
		if got := n.name(t.Context(), 1000); got != "alice" {
			t.Errorf("afterwards she is called %q", got)
		}
	})
}

// admins is an Access that adds these.
func admins(uids ...uint32) *Access {
	var a Access
	a.Set(uids)
	return &a
}
