package virt

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// raw is the connection behind the link, for what an admin would do.
func (f *fixture) raw() *libvirt.Connect { return f.session.Load().lanes[reads].now.Load().link.conn }

func TestNoLibvirtAtStartHeals(t *testing.T) {
	t.Parallel()
	uri := virttest.NodeURI(t)
	path := strings.TrimPrefix(uri, "test://")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	f := start(t, Options{URI: uri, ReconnectMin: time.Millisecond, ReconnectMax: 2 * time.Millisecond})
	if ev := f.await(observe.LinkLost); !strings.Contains(ev.Detail, uri) {
		t.Errorf("the loss does not name the URI: %q", ev.Detail)
	}
	_, err := f.ListDomains(t.Context())
	if observe.ClassOf(err) != observe.Disconnected || !strings.Contains(err.Error(), path) {
		t.Errorf("call without a link: %v, class %s", err, observe.ClassOf(err))
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	f.await(observe.Connected)
	if _, err := f.ListDomains(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALostLinkComesBackWithItsCallbacks(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 5 {
		f.session.Load().report("test: the link is lost")
		if ev := f.await(observe.LinkLost); ev.Detail != "test: the link is lost" {
			t.Errorf("reason %q", ev.Detail)
		}
		f.await(observe.Connected)
		if err := f.Destroy(t.Context(), virttest.ForeignDomains()[0].UUID); err != nil {
			t.Fatal(err)
		}
		if ev := f.await(observe.DomainChanged); ev.UUID != virttest.ForeignDomains()[0].UUID || ev.Detail == "" {
			t.Errorf("event on the new connection: %+v", ev)
		}
	}
	eventually(t, "the old connections are closed", func() bool { return f.Stats().Open == 1 })
	if s := f.Stats(); s.Connects != 6 || s.Leaked != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestADisconnectErrorOfACallEndsTheSession(t *testing.T) {
	t.Parallel()
	f := open(t)
	k := f.session.Load().lanes[reads].now.Load().link
	// What the daemon passes on is no loss of a connection that is alive.
	err := k.fail(what{opList, "x"}, libvirt.Error{Code: libvirt.ERR_SYSTEM_ERROR, Domain: libvirt.FROM_RPC})
	if observe.ClassOf(err) != observe.Transient || f.Stats().Connects != 1 {
		t.Errorf("class %s, %+v", observe.ClassOf(err), f.Stats())
	}
	err = k.fail(what{opList, "x"}, libvirt.Error{Code: libvirt.ERR_INVALID_CONN, Domain: libvirt.FROM_RPC})
	if observe.ClassOf(err) != observe.Disconnected {
		t.Errorf("class %s", observe.ClassOf(err))
	}
	f.await(observe.LinkLost)
	f.await(observe.Connected)
}

// A daemon that takes connections and does not answer.
func TestI15_AHungDaemonDelaysNeitherCallsNorTheEnd(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := start(t, Options{
		URI:         "test+unix:///default?socket=" + url.QueryEscape(socket),
		CallTimeout: 20 * time.Millisecond, ReconnectMin: time.Millisecond, ReconnectMax: time.Millisecond,
	})
	f.grace = 10 * time.Millisecond
	f.await(observe.LinkLost)
	if _, err := f.ListDomains(t.Context()); observe.ClassOf(err) != observe.Disconnected {
		t.Errorf("call: %v, class %s", err, observe.ClassOf(err))
	}
	f.stop()
	select {
	case err := <-f.done:
		f.done <- err
	case <-time.After(patience):
		t.Fatal("Run waits for a daemon that does not answer")
	}
}

func TestRunRunsOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	if err := f.Run(t.Context()); err == nil {
		t.Error("a second Run went on")
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	for uri, own := range map[string]bool{
		"test:///default":                     false,
		"test:///tmp/x.xml":                   true,
		"test+unix:///default?socket=/x":      false,
		"qemu:///system":                      false,
		"qemu+unix:///system?socket=/run/x/y": false,
	} {
		if got := ownState(uri); got != own {
			t.Errorf("%s: own state %t, want %t", uri, got, own)
		}
	}
	f := open(t)
	for of, want := range kindSlots {
		if got := cap(f.slots(kind(of))); got != want || got > 4 {
			t.Errorf("%d slots for %s", got, kind(of))
		}
	}
}
