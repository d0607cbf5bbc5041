package hostagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// claims counts the address reads that are asked for, by proxy.
func (f *farm) claims() (reads []ReadClaims) {
	for _, ef := range f.queue {
		if r, ok := ef.(ReadClaims); ok {
			reads = append(reads, r)
		}
	}
	return reads
}

// runOf is the number of the run that a proxy's addresses are read in.
func (f *farm) runOf(name string) uint64 { return f.agent.core.watches[name].run }

// silentRead is the effect that asks p's silent guest agent.
func (f *farm) silentRead() ReadClaims {
	return ReadClaims{Name: "p", UUID: domxml.DomainUUID(testHost, "p"), Run: f.runOf("p"), MACs: domxml.MAC(testHost, "p", 0), Ask: AskSilent}
}

// libvirt is told how long to wait for a guest agent by the first question to
// it, so a new link asks all at once.
func TestANewLinkAsksEveryGuest(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.hv.LoseLink("gone")
	f.settle()
	f.hv.RestoreLink()
	for len(f.claims()) == 0 {
		select {
		case ev := <-f.hv.Events():
			f.step(Hint{ev})
			continue
		default:
		}
		if len(f.queue) == 0 {
			t.Fatal("no guest agent was asked after the reconnect")
		}
		ef := f.queue[0]
		f.queue = f.queue[1:]
		f.run(ef)
	}
	if r := f.claims()[0]; r.Ask != AskAll {
		t.Errorf("the guest agent is not asked: %+v", r)
	}
}

func TestI15_ASilentGuestIsAskedEverLessOften(t *testing.T) {
	t.Parallel()
	f := up(t)
	name := "p"
	w := f.agent.core.watches[name]
	var asked []time.Duration
	began := f.now
	for range 2000 {
		f.now = f.now.Add(time.Second)
		f.step(Tick{})
		for _, r := range f.claims() {
			f.queue = slices.DeleteFunc(f.queue, func(ef Effect) bool { return ef == Effect(r) })
			if r.Ask != AskHost {
				asked = append(asked, f.now.Sub(began).Round(time.Minute))
			}
			f.step(ClaimsRead{Name: name, Run: f.runOf(name), Ask: r.Ask, Silent: r.Ask != AskHost})
		}
	}
	if n := len(asked); n < 4 || n > 7 {
		t.Errorf("asked %d times in 2000 s: %v", n, asked)
	}
	if w.silent == 0 {
		t.Error("its silence was not noted")
	}
	f.step(ClaimsRead{Name: name, Run: f.runOf(name), Answers: []Answer{{observe.FromAgent, leaseOf(f, name)}}})
	if w.silent != 0 {
		t.Error("an answer does not end the silence")
	}
}

// A lost event may have told that a guest agent is back.
func TestI14_AnOverflowAsksSilentGuestsAnew(t *testing.T) {
	t.Parallel()
	for what, ev := range map[string]Event{
		"overflow": Hint{observe.Event{Kind: observe.Overflow}}, "the link is well again": LinkChecked{},
	} {
		f := up(t)
		w := f.agent.core.watches["p"]
		for range 6 {
			f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Silent: true})
		}
		f.queue = nil
		if !w.nextAgent.After(f.now) {
			t.Fatalf("a silent guest is asked at %s", w.nextAgent)
		}
		f.step(ev)
		if reads := f.claims(); !slices.Contains(reads, f.silentRead()) {
			t.Errorf("%s: %+v", what, reads)
		}
	}
}

// What the host knows of a silent guest's addresses does not wait for it.
func TestI15_ManySilentGuestsKeepTheirLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		parts := f.agent.p
		parts.Now, parts.Alive, parts.Actions = time.Now, func(status.Host) {}, 8
		var nth atomic.Int64
		parts.Executor.Now, parts.Executor.NewInstance = time.Now, func() string { return fmt.Sprintf("i-%016x", nth.Add(1)) }
		parts.Hypervisor = slowAgent{f.hv, func() error { time.Sleep(5 * time.Second); return errors.New("no answer") }}
		parts.Sources = []Source{constant{f}}
		for n := range 45 {
			name := fmt.Sprintf("p%02d", n)
			f.specs[name] = f.spec(name, "#cloud-config\n")
		}
		f.agent = New(parts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = f.agent.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		f.hv.LoseLink("test")
		f.hv.RestoreLink()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		for _, p := range f.agent.Status().Proxies {
			if len(p.Addresses) == 0 || p.Addresses[0].Stale {
				t.Errorf("%s has a good lease and no fresh address: %+v", p.Name, p.Addresses)
			}
		}
		cancel()
		<-ended
	})
}

// constant is a source that is read once.
type constant struct{ f *farm }

func (c constant) Run(ctx context.Context, emit func(source.Snapshot)) error {
	snap := c.f.read().Snapshot
	snap.Read = time.Now()
	emit(snap)
	<-ctx.Done()
	return nil
}
func (constant) Rescan() {}

func leaseOf(f *farm, name string) []observe.Claim {
	f.t.Helper()
	claims, err := f.hv.Claims(f.t.Context(), domxml.DomainUUID(testHost, name), observe.FromLease)
	if err != nil || len(claims) == 0 {
		f.t.Fatalf("no lease of %s: %v", name, err)
	}
	return claims
}

// Reads that may hang in a guest have a lane of their own.
func TestI15_ASilentGuestDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := up(t)
	lanes := map[string]string{}
	for what, ef := range map[string]ReadClaims{
		"usual": {Name: "p"}, "silent": {Name: "b", Ask: AskSilent}, "silent, not asked": {Name: "b", Ask: AskHost},
	} {
		f.agent.effect(t.Context(), ef, func(lane string, _ func() Event) { lanes[what] = lane })
	}
	if lanes["usual"] != laneClaims || lanes["silent"] != laneSilent || lanes["silent, not asked"] != laneClaims {
		t.Errorf("lanes %v", lanes)
	}
	if n := f.agent.lanes[laneClaims].limit + f.agent.lanes[laneSilent].limit; n > 3 {
		t.Errorf("%d guest agents asked at once; the link has 3 slots for them", n)
	}
}

func TestSilenceIsMeasured(t *testing.T) {
	t.Parallel()
	f := up(t)
	uuid := domxml.DomainUUID(testHost, "p")
	for _, test := range []struct {
		took   time.Duration
		err    error
		silent bool
	}{
		{10 * time.Millisecond, errors.New("not connected"), false},
		{5 * time.Second, errors.New("no answer"), true},
		{30 * time.Second, fmt.Errorf("%w: others hang", observe.ErrBusy), false},
		{30 * time.Second, &observe.Error{Op: "read", Class: observe.Disconnected, Err: errors.New("lost")}, false},
	} {
		took, silent := test.took, test.silent
		f.agent.p.Hypervisor = slowAgent{f.hv, func() error { f.now = f.now.Add(took); return test.err }}
		ev := f.agent.readClaims(t.Context(), ReadClaims{Name: "p", UUID: uuid, MACs: domxml.MAC(testHost, "p", 0)}).(ClaimsRead)
		answered := len(ev.Answers) > 0 // by lease or ARP, which a lost link is not asked for
		if ev.Silent != silent || answered == (observe.ClassOf(test.err) == observe.Disconnected) {
			t.Errorf("agent fails after %s: %+v", took, ev)
		}
	}
}

// slowAgent is a guest agent that gives nothing after a while.
type slowAgent struct {
	Hypervisor
	wait func() error
}

func (s slowAgent) Claims(ctx context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error) {
	if src != observe.FromAgent {
		return s.Hypervisor.Claims(ctx, uuid, src)
	}
	err := s.wait()
	if known := (*observe.Error)(nil); errors.As(err, &known) {
		return nil, err
	}
	return nil, &observe.Error{Op: "read addresses of domain", Object: uuid, Class: observe.Unavailable, Err: err}
}

// Case 70, with the whole core: paused for want of room, resumed by itself.
func TestCase070TheDiskFillsUpAndEmpties(t *testing.T) {
	t.Parallel()
	f := up(t)
	uuid := domxml.DomainUUID(testHost, "p")
	changes := len(f.hv.Changes())
	f.pass(65 * time.Second) // the room was looked at a while ago
	f.tree.free = 1 << 20
	f.hv.FillDisk(uuid)
	f.pass(time.Minute)
	p := f.proxy("p")
	if c, _ := p.Condition(status.Running); c.Reason != "PausedNoSpace" || !strings.Contains(c.Message, "1 MiB free") {
		t.Errorf("%+v", c)
	}
	if p.IsReady() || p.Phase != status.PhaseDegraded {
		t.Errorf("phase %s", p.Phase)
	}
	f.pass(time.Hour)
	if got := f.hv.Changes()[changes:]; len(got) > 0 {
		t.Errorf("changed while there is no room: %v", got)
	}
	f.hv.FreeDisk()
	f.tree.free = roomy
	f.pass(recheck)
	f.wantReady("p")
	if got := f.hv.Changes()[changes:]; !slices.Equal(got, []string{"Resume " + uuid}) {
		t.Errorf("changes: %v", got)
	}
}

// Case 108: a stopped network is named, and only what has to start on it waits.
func TestCase108AnInactiveNetworkIsNamed(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.hv.AdminNetwork("default", false)
	f.put("late", "#cloud-config\n")
	f.pass(time.Minute)
	f.wantReady("p")
	c, _ := f.proxy("late").Condition(status.Synced)
	if !strings.Contains(c.Message, "network default is not active; start it: virsh net-start default") {
		t.Errorf("%+v", c)
	}
	f.hv.AdminNetwork("default", true)
	f.pass(10 * time.Minute)
	f.wantReady("late")
}

// A proxy is probed on while libvirt can not be seen: whether it serves does
// not depend on libvirt.
func TestI09_ProbesGoOnWithoutLibvirt(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.hv.LoseLink("gone")
	f.pass(10 * time.Minute)
	p := f.proxy("p")
	if c, _ := p.Condition(status.Reachable); c.Status != status.True {
		t.Errorf("%+v", c)
	}
	if c, _ := p.Condition(status.Running); c.Status != status.Unknown || p.URL == "" || p.IsReady() {
		t.Errorf("%+v, URL %q", c, p.URL)
	}
	f.probeOK = false
	f.pass(2 * time.Minute)
	if c, _ := f.proxy("p").Condition(status.Reachable); c.Status != status.False {
		t.Errorf("it does not answer any more: %+v", c)
	}
}

// What the link says of itself reaches the host's conditions, by its running
// loop, and leaves them again.
func TestADegradedLinkIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		parts := f.agent.p
		parts.Now, parts.Alive = time.Now, func(status.Host) {}
		f.agent = New(parts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = f.agent.Run(ctx) }()
		for _, text := range []string{"", "libvirt answers none of 3 guest-agent calls", ""} {
			f.hv.Degrade(text)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			c, _ := f.agent.Status().Condition(status.LibvirtConnected)
			if said := c.Reason == "LibvirtDegraded" && strings.Contains(c.Message, text); said != (text != "") {
				t.Errorf("degraded %q: %+v", text, c)
			}
		}
		cancel()
		<-ended
	})
}

// A guest agent that was silent once and now gives nothing at once, because it
// is not connected or has no address, is not asked in a loop.
func TestI15_AGuestAgentThatGivesNothingIsNotAskedInALoop(t *testing.T) {
	t.Parallel()
	for what, answer := range map[string]ClaimsRead{
		"no answer":            {Name: "p", Ask: AskSilent},
		"an answer of nothing": {Name: "p", Ask: AskSilent, Answers: []Answer{{Source: observe.FromAgent}}},
	} {
		f := up(t)
		f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Silent: true})
		f.now = f.now.Add(2 * time.Minute)
		f.queue = nil
		f.step(Tick{})
		asked := 0
		for range 100 {
			i := slices.IndexFunc(f.queue, func(ef Effect) bool { r, ok := ef.(ReadClaims); return ok && r.Ask == AskSilent })
			if i < 0 {
				break
			}
			f.queue = slices.Delete(f.queue, i, i+1)
			asked++
			answer.Run = f.runOf("p")
			f.step(answer)
		}
		if asked != 1 {
			t.Errorf("%s: asked %d times at one moment", what, asked)
		}
	}
}

// What happens to a guest agent while it is being asked has it asked once more.
func TestI14_AnEventWhileAGuestIsAskedIsNotLost(t *testing.T) {
	t.Parallel()
	f := up(t)
	uuid := domxml.DomainUUID(testHost, "p")
	f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Silent: true})
	f.now = f.now.Add(2 * time.Minute)
	f.queue = nil
	f.step(Tick{}) // it is asked
	f.step(Hint{observe.Event{Kind: observe.AgentChanged, UUID: uuid}})
	f.queue = nil
	f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Ask: AskSilent, Silent: true})
	if !slices.Contains(f.claims(), f.silentRead()) {
		t.Errorf("not asked again: %+v", f.queue)
	}
	f.queue = nil
	f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Ask: AskSilent, Silent: true})
	if slices.Contains(f.claims(), f.silentRead()) {
		t.Error("asked again and again")
	}
}
