package hostagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/apply"
	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

const (
	testHost = "host-1"
	digest   = "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
)

// farm drives a Core by hand: one goroutine, its own clock, the real executor
// on a fake hypervisor and a tree in memory.
type farm struct {
	t       *testing.T
	now     time.Time
	hv      *virttest.Fake
	tree    *memTree
	agent   *Agent
	seq     uint64
	specs   map[string]spec.Spec
	synced  bool
	queue   []Effect
	nth     int
	stepped time.Time // the latest step
	probeOK bool
	ran     []string // actions, in order
	store   *state.Memory
	memory  uint64 // that the host has available
	// startInterval of the agents that boot from now on.
	startInterval time.Duration
	answers       []Answered
	lateSaves     bool // saves wait in the queue as other effects do
}

func newFarm(t *testing.T) *farm {
	f := &farm{
		t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		hv: virttest.New(domxml.Namespace), tree: newMemTree(),
		store: state.NewMemory(), memory: 64 << 30,
		specs: map[string]spec.Spec{}, synced: true, probeOK: true,
	}
	f.boot()
	return f
}

// boot starts a new agent on what is there: a restart when there was one.
func (f *farm) boot() {
	f.queue = nil
	f.agent = New(f.parts())
	f.step(Hint{observe.Event{Kind: observe.Connected}}, f.read())
}

// parts are what an agent that boots now is made of.
func (f *farm) parts() Parts {
	kept := Restore(f.store.Content(), f.now, func(e state.Entry, err error) {
		f.t.Errorf("state entry %s %s: %v", e.Kind, e.Key, err)
	})
	return Parts{
		Settings: Settings{
			Host: "h", Version: "test", URI: "fake:///", Resync: time.Minute, ProbeInterval: 30 * time.Second,
			Origins: []string{source.OriginDir},
			Policy: plan.Policy{
				HostID: testHost, DeletionDelay: 30 * time.Second, ShutdownGrace: time.Minute,
				ShutdownRepeat: 10 * time.Second, Probe: true, ProbeStale: 2 * time.Minute, AddressStale: 3 * time.Minute,
				DiskReserve: 1 << 30, MaxUnavailable: 1, RolloutWait: 10 * time.Minute, ImageGrace: time.Hour,
				StartInterval: f.startInterval,
			},
		},
		Kept:       kept,
		Hypervisor: f.hv, Tree: f.tree, Prober: f, Host: f, State: f.store,
		Executor: &apply.Executor{
			Hypervisor: f.hv, Tree: f.tree, HostID: testHost, Acceleration: domxml.TCG,
			NewInstance: func() string { f.nth++; return fmt.Sprintf("i-%016x", f.nth) },
			Now:         func() time.Time { return f.now },
		},
		Now: func() time.Time { return f.now },
		Log: slog.New(slog.DiscardHandler),
	}
}

// Probe implements Prober.
func (f *farm) Probe(context.Context, probe.Target) probe.Result {
	return probe.Result{OK: f.probeOK, Reason: "Probed"}
}

// Addresses and InterfacePrefixes implement Host.
func (f *farm) Addresses() ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.168.122.1")}, nil
}
func (f *farm) InterfacePrefixes(string) ([]netip.Prefix, error) { return nil, errors.New("no bridge") }

// MemoryAvailable implements Host.
func (f *farm) MemoryAvailable() (uint64, error) { return f.memory, nil }

func (f *farm) read() SourceRead {
	f.seq++
	snap := source.Snapshot{Origin: source.OriginDir, Seq: f.seq, Read: f.now, Synced: f.synced, Entries: map[string]source.Entry{}}
	for name, s := range f.specs {
		if s.Own == "" {
			sum := sha256.Sum256([]byte(s.Hash().String()))
			s.Own = hex.EncodeToString(sum[:16])
		}
		snap.Entries[name] = source.Entry{Name: name, Spec: &s, Hash: s.Hash()}
	}
	return SourceRead{snap}
}

func (f *farm) spec(name, userData string) spec.Spec {
	return spec.Spec{
		Name: name, Image: spec.Image{Key: "d", Source: "/d", SHA256: digest, Format: "qcow2"},
		CPUs: 1, Memory: 256 << 20, Port: 3128, UserData: spec.Secret(userData), GuestAgent: true,
		Networks: []spec.NIC{{Network: spec.Network{Network: virttest.DefaultNetwork}}}, Probe: spec.Probe{Type: spec.ProbeTCP},
	}
}

// put writes a spec and lets the source read it.
func (f *farm) put(name, userData string) {
	f.specs[name] = f.spec(name, userData)
	f.step(f.read())
}

func (f *farm) remove(name string) {
	delete(f.specs, name)
	f.step(f.read())
}

// step hands events to the Core and queues the effects.
func (f *farm) step(events ...Event) {
	f.stepped = f.now
	effects := f.agent.core.Step(f.now, events...)
	for _, ef := range effects {
		if save, ok := ef.(SaveState); ok && !f.lateSaves {
			defer f.run(save)
			continue
		}
		f.queue = append(f.queue, ef)
	}
}

// settle runs effects and hypervisor events until nothing is left.
func (f *farm) settle() {
	f.t.Helper()
	for range 10000 {
		select {
		case ev := <-f.hv.Events():
			f.step(Hint{ev})
			continue
		default:
		}
		if len(f.queue) == 0 {
			return
		}
		ef := f.queue[0]
		f.queue = f.queue[1:]
		f.run(ef)
	}
	f.t.Fatalf("does not settle; last actions %v", f.ran[max(0, len(f.ran)-10):])
}

func (f *farm) run(ef Effect) {
	switch ef := ef.(type) {
	case RunAction:
		a := ef.Action
		f.ran = append(f.ran, string(a.Kind)+" "+a.Name)
	case RescanSources:
		f.step(f.read())
		return
	case Answered:
		f.answers = append(f.answers, ef)
		return
	}
	f.agent.effect(f.t.Context(), ef, func(_ string, work func() Event) { f.step(work()) })
}

// pass lets time go by in steps the Core asks for.
func (f *farm) pass(d time.Duration) {
	f.t.Helper()
	end := f.now.Add(d)
	for {
		f.settle()
		next := f.agent.core.Wake()
		if next.After(end) {
			f.now = end
			return
		}
		f.now = next.Add(time.Millisecond)
		f.step(Tick{})
	}
}

func (f *farm) proxy(name string) status.Proxy {
	f.t.Helper()
	for _, p := range f.agent.core.Status(f.now).Proxies {
		if p.Name == name {
			return p
		}
	}
	f.t.Fatalf("no proxy %s in status", name)
	return status.Proxy{}
}

func (f *farm) wantReady(name string) status.Proxy {
	f.t.Helper()
	p := f.proxy(name)
	if p.Phase != status.PhaseReady {
		f.t.Fatalf("%s is %s: %+v", name, p.Phase, p.Conditions)
	}
	return p
}

func (f *farm) took() []string {
	out := f.ran
	f.ran = nil
	return out
}

// up brings "p" to Ready.
func up(t *testing.T) *farm {
	f := newFarm(t)
	f.put("p", "#cloud-config\n")
	f.pass(30 * time.Second)
	f.wantReady("p")
	f.took()
	return f
}

func TestLife(t *testing.T) {
	f := newFarm(t)
	f.put("p", "#cloud-config\n")
	f.pass(30 * time.Second)
	p := f.wantReady("p")
	want := []string{"init-tree ", "fetch-image ", "prepare p", "define p", "start p"}
	if d := cmp.Diff(want, f.took()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !strings.HasPrefix(p.URL, "http://192.168.122.") || p.Instance == "" {
		t.Errorf("%+v", p)
	}
	f.put("p", "#cloud-config\n# edited\n")
	f.pass(2 * time.Minute)
	q := f.wantReady("p")
	want = []string{"prepare p", "shutdown p", "define p", "start p", "discard p"}
	if d := cmp.Diff(want, f.took()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if q.Instance == p.Instance || q.UUID != p.UUID {
		t.Errorf("after the edit: instance %s (was %s), UUID %s (was %s)", q.Instance, p.Instance, q.UUID, p.UUID)
	}
	f.remove("p")
	f.pass(3 * time.Minute)
	want = []string{"shutdown p", "undefine p", "discard p"}
	if d := cmp.Diff(want, f.took()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if ds, _ := f.hv.ListDomains(t.Context()); len(ds)+len(f.tree.incs) != 0 {
		t.Errorf("left: %v %v", ds, f.tree.incs)
	}
	if n := len(f.agent.core.Status(f.now).Proxies); n != 0 {
		t.Errorf("%d proxies still in status", n)
	}
}

func TestI10_RestartChangesNothing(t *testing.T) {
	f := up(t)
	before := f.proxy("p")
	changes := len(f.hv.Changes())
	f.boot()
	f.pass(5 * time.Minute)
	after := f.wantReady("p")
	if got := f.took(); len(got) != 0 {
		t.Errorf("a restart took %v", got)
	}
	if n := len(f.hv.Changes()); n != changes {
		t.Errorf("a restart changed the hypervisor: %v", f.hv.Changes()[changes:])
	}
	if before.Instance != after.Instance {
		t.Error("a restart changed the instance-id")
	}
}

func TestI01_AShortListIsLookedInto(t *testing.T) {
	f := up(t)
	f.hv.ShortList(1, f.proxy("p").UUID)
	f.pass(3 * time.Minute)
	f.wantReady("p")
	if got := f.took(); len(got) != 0 {
		t.Errorf("a short list led to %v", got)
	}
	t.Run("at the start too", func(t *testing.T) {
		f := up(t)
		f.hv.ShortList(1, f.proxy("p").UUID)
		f.boot()
		f.pass(30 * time.Second)
		f.wantReady("p")
		if got := f.took(); len(got) != 0 {
			t.Errorf("a short first list led to %v", got)
		}
	})
}

func TestI01_ListErrorsAreNotAbsence(t *testing.T) {
	f := up(t)
	f.hv.Fail("ListDomains", 3, &observe.Error{Op: "list", Class: observe.Disconnected, Err: errors.New("x")})
	f.hv.Fail("LookupDomain", 3, &observe.Error{Op: "look up", Class: observe.Transient, Err: errors.New("x")})
	f.pass(3 * time.Minute)
	if got := f.took(); len(got) != 0 {
		t.Errorf("errors led to %v", got)
	}
	f.wantReady("p")
}

func TestI14_LostEventsAreRepaired(t *testing.T) {
	f := up(t)
	f.hv.AdminDestroy(f.proxy("p").UUID)
	for {
		select {
		case <-f.hv.Events(): // lost
			continue
		default:
		}
		break
	}
	f.pass(2 * time.Minute)
	f.wantReady("p")
	if d := cmp.Diff([]string{"start p"}, f.took()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDomainUndefinedByAnAdminComesBackOnItsOverlay(t *testing.T) {
	f := up(t)
	before := f.proxy("p")
	f.hv.AdminDestroy(before.UUID)
	f.hv.AdminUndefine(before.UUID)
	f.pass(time.Minute)
	after := f.wantReady("p")
	if after.Instance != before.Instance {
		t.Errorf("instance %s, was %s", after.Instance, before.Instance)
	}
}

func TestBadImageStopsOnlyItsProxies(t *testing.T) {
	f := newFarm(t)
	f.tree.broken["/bad"] = errors.New("sha256 is eeee, want ffff; fix images.bad.sha256 in the config")
	bad := f.spec("bad", "x")
	bad.Image = spec.Image{Key: "bad", Source: "/bad", SHA256: strings.Repeat("f", 64), Format: "qcow2"}
	f.specs["bad"] = bad
	f.put("good", "x")
	f.pass(2 * time.Minute)
	f.wantReady("good")
	c, _ := f.proxy("bad").Condition(status.Synced)
	if c.Reason != "ImageFailed" || !strings.Contains(c.Message, "images.bad.sha256") {
		t.Errorf("%+v", c)
	}
}

func TestI16_MarkerLostWhileRunning(t *testing.T) {
	f := up(t)
	f.tree.marker = observe.MarkerAbsent
	f.put("p", "edited")
	f.pass(5 * time.Minute)
	if got := f.took(); len(got) > 1 { // the scan may come after a first step was planned, which the tree refuses
		t.Errorf("without marker: %v", got)
	}
	if c, _ := f.proxy("p").Condition(status.Synced); c.Reason != "ImageTreeMissing" {
		t.Errorf("%+v", c)
	}
	f.tree.marker = observe.MarkerOK
	f.pass(5 * time.Minute)
	f.wantReady("p")
}
