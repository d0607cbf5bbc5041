package virt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

var _ virttest.Handle = (*fixture)(nil)

// patience is how long tests wait for what should come at once.
const patience = 20 * time.Second

// TestMain fails the run when a goroutine of the package outlives its tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := goroutinesLeft(); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// goroutinesLeft gives the stacks that are in this package, once they had time
// to end.
func goroutinesLeft() string {
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		buf := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "hostagent/virt.") && !strings.Contains(stack, "virt.TestMain") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		select {
		case <-tick.C:
		case <-deadline:
			return strings.Join(left, "\n\n")
		}
	}
}

// needLibvirt skips a test where the library cannot be loaded, unless
// REQUIRE_ALL=1 says that everything has to be tested.
func needLibvirt(t testing.TB) {
	t.Helper()
	if _, err := libvirt.GetVersion(); err != nil {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatalf("libvirt cannot be loaded: %v", err)
		}
		t.Skipf("libvirt cannot be loaded: %v", err)
	}
}

// fixture is a Conn under test, with its Run.
type fixture struct {
	*Conn
	t    testing.TB
	stop context.CancelFunc
	done chan error
}

// start runs a Conn; the test ends with checks that nothing leaked.
func start(t testing.TB, opt Options) *fixture {
	t.Helper()
	needLibvirt(t)
	opt.Namespace = virttest.Namespace
	if testing.Verbose() {
		opt.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &fixture{Conn: New(opt), t: t, stop: cancel, done: make(chan error, 1)}
	go func() { f.done <- f.Run(ctx) }()
	t.Cleanup(f.finish)
	return f
}

// open is start on a node file with foreign domains, the link up.
func open(t testing.TB) *fixture {
	t.Helper()
	f := start(t, Options{URI: virttest.NodeURI(t, virttest.ForeignDomains()...), ReconnectMin: time.Millisecond})
	f.await(observe.Connected)
	return f
}

// await reads events up to the first of that kind.
func (f *fixture) await(kind observe.EventKind) observe.Event {
	f.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case ev := <-f.Events():
			if ev.Kind == kind {
				return ev
			}
		case err := <-f.done:
			f.t.Fatalf("Run ended: %v", err)
		case <-deadline:
			f.t.Fatalf("no event %q", kind)
		}
	}
}

// AdminPause suspends a domain behind the link's back.
func (f *fixture) AdminPause(uuid string) { f.admin(uuid, (*libvirt.Domain).Suspend) }

// AdminSave saves a running domain behind the link's back, as virsh managedsave
// does.
func (f *fixture) AdminSave(uuid string) {
	f.admin(uuid, func(d *libvirt.Domain) error { return d.ManagedSave(0) })
}

// admin does something to a domain, within patience.
func (f *fixture) admin(uuid string, do func(*libvirt.Domain) error) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() {
		d, err := f.raw().LookupDomainByUUIDString(uuid)
		if err == nil {
			err = errors.Join(do(d), d.Free())
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			f.t.Fatal(err)
		}
	case <-time.After(patience):
		f.t.Fatal("libvirt does not answer an admin")
	}
}

// LoseLink makes the link give its session up.
func (f *fixture) LoseLink(detail string) { f.session.Load().report(detail) }

// RestoreLink has nothing to do: the link restores itself.
func (f *fixture) RestoreLink() {}

// finish stops Run and checks that every handle was freed, every connection
// closed and none closed with references left.
func (f *fixture) finish() {
	f.t.Helper()
	f.stop()
	select {
	case err := <-f.done:
		if err != nil {
			f.t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		f.t.Fatal("Run does not end")
	}
	if n := f.handles.Load(); n != 0 {
		f.t.Errorf("%d libvirt handles not freed", n)
	}
	if s := f.Stats(); s.Open != 0 || s.Leaked != 0 || s.Stuck != 0 || s.Connected {
		f.t.Errorf("stats at the end: %+v", s)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestConformsOnTheTestDriver(t *testing.T) {
	t.Parallel()
	virttest.Conform(t, func(t *testing.T) virttest.Handle { return open(t) })
}
