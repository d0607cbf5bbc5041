//go:build libvirtd

package link

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// hang is an agent whose libvirtd is about to stand still. One agent goes
// through all of it: none of it needs a restart of the agent.
type hang struct {
	*lane
	notify *kit.Notify
}

// beyond is longer than every deadline there is: 5 s until the link is given
// up, 3 s for a call and for an attempt to connect, 5 s between two lists.
func beyond() time.Duration { return soak(10*time.Second, 10*time.Minute) }

// TestI15_HungLibvirtdDelaysNothingElse stops libvirtd in the middle of one
// operation after the other.
func TestI15_HungLibvirtdDelaysNothingElse(t *testing.T) {
	h := startHang(t)
	h.drop("stays", "goes")
	h.running("stays", "goes")
	base := h.host()
	t.Run("in a create", func(t *testing.T) { h.on(t).inCreate() })
	t.Run("in a delete", func(t *testing.T) { h.on(t).inDelete() })
	t.Run("in an address read", func(t *testing.T) { h.on(t).inAddressRead() })
	t.Run("and killed in a create", func(t *testing.T) { h.on(t).killedInCreate() })
	h.wait("goroutines are back", func(now status.Host) bool { return now.Goroutines <= base.Goroutines+2 })
	t.Logf("goroutines: %d, at first %d", h.host().Goroutines, base.Goroutines)
	h.end()
}

// TestI15_HungLibvirtdDelaysNoStop ends the agent while libvirtd stands still
// in the middle of a create.
func TestI15_HungLibvirtdDelaysNoStop(t *testing.T) {
	for _, when := range []struct {
		what string
		wait func(*hang)
	}{
		{"while calls wait", func(h *hang) {
			h.await(patience, "a call is stuck", func() bool { return h.host().Link.StuckCalls > 0 })
		}},
		{"when the link is given up", func(h *hang) {
			h.wait("the loss is shown", func(now status.Host) bool { return !connected(now) })
		}},
	} {
		t.Run(when.what, func(t *testing.T) {
			h := startHang(t)
			h.drop("stays")
			h.running("stays")
			before := h.picture("egress-stays")
			h.freezeAt("start")
			h.drop("late")
			h.frozen()
			when.wait(h)
			took, _ := h.stop()
			if took > 10*time.Second {
				t.Errorf("the agent needed %s to end; it is to be gone within 10 s", took)
			}
			defer h.revives()()
			h.thaw()
			h.same(before, "after the agent's end", "egress-stays")
			h.start()
			h.running("stays", "late")
			h.only("late")
			h.same(before, "after the agent's next start", "egress-stays")
			h.end()
		})
	}
}

// revives starts libvirtd again should it end by itself, as systemd does: now and
// then 9.0 does not survive that it goes on where clients with open calls have
// gone. The function that it returns ends that.
func (h *hang) revives() (end func()) {
	h.patient = true
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
			pid, err := h.place.PID(kit.Libvirtd)
			if err != nil || syscall.Kill(pid, 0) == nil {
				continue
			}
			h.Logf("libvirtd (%d) has ended by itself; starting it again: %v", pid, h.place.Up())
		}
	}()
	return func() { close(done); <-ended }
}

func startHang(t *testing.T) *hang {
	h := &hang{lane: newLane(t, setting{})}
	var err error
	if h.notify, err = h.agent.Notify(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.place.Signal(kit.Libvirtd, cont) // should the test have ended early
		if err := h.notify.Close(); err != nil {
			t.Error(err)
		}
	})
	h.start()
	return h
}

// on is h for a subtest.
func (h *hang) on(t *testing.T) *hang {
	l := *h.lane
	l.T = t
	t.Cleanup(func() { _ = h.place.Signal(kit.Libvirtd, cont) })
	return &hang{lane: &l, notify: h.notify}
}

func (h *hang) inCreate() {
	before := h.picture("egress-stays", "egress-goes")
	h.freezeAt("start")
	h.drop("made")
	h.frozen()
	h.hung("a", true)
	h.thaw()
	h.running("stays", "goes", "made", "a")
	h.only("made")
	h.same(before, "after it", "egress-stays", "egress-goes")
}

func (h *hang) inDelete() {
	before := h.picture("egress-stays")
	h.freezeAt("stopped")
	h.remove("goes")
	h.frozen()
	h.hung("b", true)
	h.thaw()
	h.gone("goes")
	h.nothing("goes")
	h.running("stays", "b")
	h.same(before, "after it", "egress-stays")
}

// inAddressRead: reads of addresses come quickly after an event of the domain,
// and nothing else is asked of libvirt then.
func (h *hang) inAddressRead() {
	before := h.picture("egress-stays")
	from := h.agent.LogSize()
	h.virsh("suspend egress-stays", "resume egress-stays")
	h.freeze()
	h.hung("c", true)
	if !slices.ContainsFunc(h.agent.Log(from), func(l kit.Line) bool {
		return l["msg"] == "addresses not read" && strings.Contains(l["error"], "no answer from libvirt")
	}) {
		h.Errorf("no address read was under way")
	}
	h.thaw()
	h.running("stays", "c")
	h.same(before, "after it", "egress-stays")
	h.noActions(from, "after it", "c")
}

func (h *hang) killedInCreate() {
	before := h.picture("egress-stays")
	h.freezeAt("started")
	h.drop("again")
	h.frozen()
	h.hung("d", true)
	if err := h.place.Down("KILL"); err != nil {
		h.Fatal(err)
	}
	if err := h.place.Up(); err != nil {
		h.Fatal(err)
	}
	h.running("stays", "again", "d")
	h.only("again")
	h.same(before, "after it", "egress-stays")
}

// hung is what must hold while libvirtd stands still, for longer than every
// deadline: status and list answer, status says what is wrong, the watchdog is
// fed, specs are read. With stuck set a call is to be waited for in vain.
func (h *hang) hung(newSpec string, stuck bool) {
	h.Helper()
	began := time.Now()
	var most status.Link
	var slowest time.Duration
	var goroutines int
	h.drop(newSpec)
	for deadline := began.Add(beyond()); time.Now().Before(deadline); {
		asked := time.Now()
		now := h.host()
		slowest = max(slowest, time.Since(asked))
		most.StuckCalls = max(most.StuckCalls, now.Link.StuckCalls)
		most.Connections = max(most.Connections, now.Link.Connections)
		goroutines = max(goroutines, now.Goroutines)
		<-time.After(100 * time.Millisecond)
	}
	fed, gap := h.notify.Since(began)
	h.Logf("hung for %s: status answered within %s; at most %d stuck calls, %d connections, %d goroutines; watchdog fed %d times, at most %s apart",
		time.Since(began).Round(time.Second), slowest.Round(time.Millisecond), most.StuckCalls, most.Connections, goroutines, fed, gap.Round(time.Millisecond))
	if stuck && most.StuckCalls == 0 {
		h.Errorf("no call was stuck")
	}
	// Fed every second; systemd's watchdog would act after thirty.
	if gap > 10*time.Second || fed == 0 {
		h.Errorf("the watchdog was not fed for %s", gap)
	}
	h.shown(newSpec)
}

// shown checks what the agent says while libvirtd stands still.
func (h *hang) shown(newSpec string) {
	h.Helper()
	now := h.host()
	if connected(now) || now.Link.Connected {
		h.Errorf("libvirt counts as connected")
	}
	if !slices.ContainsFunc(now.Proxies, func(p status.Proxy) bool { return p.Name == newSpec }) {
		h.Errorf("the spec written meanwhile is not shown")
	}
	for _, p := range now.Proxies {
		if !is(p, status.Running, status.Unknown, "CannotSee") {
			h.Errorf("%s: %+v; want Running Unknown", p.Name, p.Conditions)
		}
	}
	text, err := h.agent.CLI("status")
	if want := fmt.Sprintf("! %s:", status.LibvirtConnected); err == nil || !strings.Contains(text, want) {
		h.Errorf("status: %v; want exit code 1 and %q in:\n%s", err, want, text)
	}
	h.Logf("status says:\n%s", text)
	if out, err := h.agent.CLI("list"); err != nil || strings.TrimSpace(out) != "" {
		h.Errorf("list: %q, %v; want nothing, for nothing is seen to serve", out, err)
	}
}
