package hostagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

var transient = &observe.Error{Op: "x", Class: observe.Transient, Err: errors.New("x")}
var disco = &observe.Error{Op: "x", Class: observe.Disconnected, Err: errors.New("x")}

// Wake in the past while blind.
func TestNoWakeInThePast(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.step(Hint{observe.Event{Kind: observe.LinkLost}})
	f.step(DomainLooked{UUID: uuid, Err: disco}) // a look that was under way
	f.now = f.now.Add(5 * time.Second)
	f.step(Tick{})
	if w := f.agent.core.Wake(); !w.After(f.now) {
		t.Errorf("Wake is %s in the past: busy loop", f.now.Sub(w))
	}
}

// InitTree fails: hot loop.
type roTree struct {
	*memTree
	n int
}

func (r *roTree) InitMarker() error { r.n++; return errors.New("read-only file system") }

func TestI15_InitTreeFailsWithoutAHotLoop(t *testing.T) {
	f := newFarm(t)
	r := &roTree{memTree: f.tree}
	f.agent.p.Tree = r
	f.agent.p.Executor.Tree = r
	f.put("p", "x")
	for range 500 {
		ef, more := f.next()
		if !more {
			break
		}
		f.run(ef)
	}
	if r.n > 2 {
		t.Errorf("init-tree ran %d times at one instant", r.n)
	}
}

// Stale tree scan.
func TestALateScanIsMadeAgain(t *testing.T) {
	f := newFarm(t)
	f.settle()
	stale := f.tree.Scan() // begun before Prepare
	f.put("p", "x")
	for range 300 {
		ef, more := f.next()
		if !more {
			break
		}
		f.run(ef)
		if a, ok := ef.(RunAction); ok && a.Action.Kind == plan.Define {
			f.queue = nil
			break
		}
		if _, ok := ef.(RunAction); ok && ef.(RunAction).Action.Kind == plan.FetchImage {
			stale = f.tree.Scan()
		}
	}
	f.queue = nil
	f.agent.core.obs.Busy = map[string]plan.Kind{}
	f.step(TreeScanned{stale})
	for _, e := range f.queue {
		if a, ok := e.(RunAction); ok && a.Action.Kind == plan.Prepare {
			t.Errorf("a stale scan has it made a second time: %s %s", a.Action.Kind, a.Action.Reason)
		}
	}
}

// Stale look after a recreate reboots the new guest.
func TestALateLookIsMadeAgain(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	// a look begins: it reads now, its answer is late
	f.step(Hint{observe.Event{Kind: observe.DomainChanged, UUID: uuid}})
	var rest []Effect
	for _, e := range f.queue {
		if _, ok := e.(LookupDomain); !ok {
			rest = append(rest, e)
		}
	}
	f.queue = rest
	d, err := f.hv.LookupDomain(t.Context(), uuid)
	late := DomainLooked{UUID: uuid, Domain: d, Err: err}
	f.put("p", "edited")
	f.settle()
	f.wantRan("start p")
	f.took()
	f.step(late)
	f.settle()
	if got := f.took(); len(got) != 0 {
		t.Errorf("a late look led to %v", got)
	}
}

// next takes hypervisor events until there is none, then the next effect.
func (f *farm) next() (ef Effect, more bool) {
	for {
		select {
		case ev := <-f.hv.Events():
			f.step(Hint{ev})
			continue
		default:
		}
		if len(f.queue) == 0 {
			return nil, false
		}
		ef, f.queue = f.queue[0], f.queue[1:]
		return ef, true
	}
}

func (f *farm) wantRan(a string) {
	f.t.Helper()
	if !slices.Contains(f.ran, a) {
		f.t.Fatalf("ran %v, not %s", f.ran, a)
	}
}

// Growth.
func TestI15_ForeignDomainsLeaveNothing(t *testing.T) {
	f := up(t)
	n0 := len(f.agent.core.looks) + len(f.agent.core.absent)
	for i := range 500 {
		f.step(Hint{observe.Event{Kind: observe.DomainChanged, UUID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i)}})
		f.settle()
	}
	f.pass(10 * time.Minute)
	if n := len(f.agent.core.looks) + len(f.agent.core.absent); n > n0+10 {
		t.Errorf("%d entries kept of 500 foreign domains long gone", n-n0)
	}
}

// Failed Prepare leaves garbage.
type fullTree struct{ *memTree }

func (f fullTree) CreateOverlay(_ context.Context, name, instance string, base observe.Base, size spec.Size) error {
	return errors.New("no space left")
}

func TestI15_FailedPrepareLeavesNoHeap(t *testing.T) {
	f := newFarm(t)
	f.agent.p.Tree, f.agent.p.Executor.Tree = fullTree{f.tree}, fullTree{f.tree}
	f.put("p", "x")
	f.pass(6 * time.Hour)
	if n := len(f.tree.incs["p"]); n > 1 {
		t.Errorf("%d records and seeds lie about", n)
	}
}

// Start failing: conditions flap.
func TestAStandingFaultIsSaidOnce(t *testing.T) {
	f := up(t)
	f.hv.Fail("Start", -1, transient)
	f.hv.AdminDestroy(f.proxy("p").UUID)
	changes, was := 0, ""
	end := f.now.Add(30 * time.Minute)
	for f.now.Before(end) {
		select {
		case ev := <-f.hv.Events():
			f.step(Hint{ev})
		default:
			if len(f.queue) > 0 {
				ef := f.queue[0]
				f.queue = f.queue[1:]
				f.run(ef)
			} else {
				f.now = f.agent.core.Wake().Add(time.Millisecond)
				f.step(Tick{})
			}
		}
		c, _ := f.proxy("p").Condition(status.Synced)
		if s := string(c.Status); s != was {
			changes++
			was = s
		}
	}
	if changes > 3 {
		t.Errorf("Synced changed %d times in half an hour of one standing fault", changes)
	}
}

// Bad image edit, guest crashes: VM stays off.
func TestABadImageIsNoReasonToStayOff(t *testing.T) {
	f := up(t)
	f.tree.broken["/bad"] = errors.New("404")
	bad := f.spec("p", "#cloud-config\n")
	bad.Image = spec.Image{Key: "bad", Source: "/bad", SHA256: strings.Repeat("f", 64), Format: "qcow2"}
	f.specs["p"] = bad
	f.step(f.read())
	f.pass(time.Minute)
	uuid := f.proxy("p").UUID
	f.hv.GuestPowerOff(uuid)
	f.pass(30 * time.Minute)
	if d, _ := f.hv.Domain(uuid); d.Power != observe.PowerRunning {
		t.Errorf("power %s, did %v", d.Power, f.ran)
	}
}

// Dry run.
func TestDryRunTellsEveryFirstStep(t *testing.T) {
	f := up(t)
	f.specs["p"] = f.spec("p", "edited")
	f.specs["q"] = f.spec("q", "new")
	r, _, err := DryRun(t.Context(), f.agent.p, []source.Snapshot{f.read().Snapshot})
	var got []string
	for _, a := range r {
		got = append(got, string(a.Kind)+" "+a.Name)
	}
	if len(got) != 2 {
		t.Errorf("planned %v %v, want prepare p and prepare q", got, err)
	}
}

// Host addrs error.
func TestI17_HostAddressesAreNotForgotten(t *testing.T) {
	f := up(t)
	f.hv.SetAgent(f.proxy("p").UUID, true)
	f.hv.SetClaims(f.proxy("p").UUID, observe.FromAgent, observe.Claim{MAC: domxml.MAC(testHost, "p", 0), Addr: netip.MustParseAddr("192.168.122.1")})
	f.pass(2 * time.Minute)
	c, _ := f.proxy("p").Condition(status.Addressed)
	if c.Reason != "AddressNotBelieved" {
		t.Fatalf("%+v", c)
	}
	f.agent.p.Host = noHost{f}
	f.pass(2 * time.Minute)
	c, _ = f.proxy("p").Condition(status.Addressed)
	if c.Reason != "AddressNotBelieved" {
		t.Errorf("%+v", c)
	}
}

type noHost struct{ *farm }

func (noHost) Addresses() ([]netip.Addr, error) { return nil, errors.New("netlink") }

// List from before the loss.
func TestI01_AListFromBeforeTheLossIsOld(t *testing.T) {
	f := up(t)
	f.step(Hint{observe.Event{Kind: observe.Overflow}})
	f.queue = nil
	ds, _ := f.hv.ListDomains(t.Context())
	f.hv.LoseLink("gone")
	f.step(Hint{observe.Event{Kind: observe.LinkLost, Detail: "gone"}})
	f.step(DomainsListed{Domains: ds})
	for _, c := range f.agent.core.Status(f.now).Conditions {
		if c.Type == status.LibvirtConnected && c.Status == status.True {
			t.Errorf("green while the link is down: %+v", c)
		}
	}
}

// Agent with link-local only.
func TestLinkLocalIsNoAddressYet(t *testing.T) {
	f := newFarm(t)
	f.put("p", "x")
	f.settle()
	uuid := f.proxy("p").UUID
	mac := domxml.MAC(testHost, "p", 0)
	f.hv.SetClaims(uuid, observe.FromLease)
	f.hv.SetClaims(uuid, observe.FromARP)
	f.pass(3 * time.Second)
	f.hv.SetClaims(uuid, observe.FromAgent, observe.Claim{MAC: mac, Addr: netip.MustParseAddr("fe80::1")})
	f.hv.SetAgent(uuid, true)
	f.pass(2 * time.Second)
	f.hv.SetClaims(uuid, observe.FromAgent, observe.Claim{MAC: mac, Addr: netip.MustParseAddr("192.168.122.77")})
	f.pass(20 * time.Second)
	if c, _ := f.proxy("p").Condition(status.Addressed); c.Status != status.True {
		t.Errorf("%+v", c)
	}
}

// State save.
type badState struct{ n int }

func (b *badState) Save(...state.Change) error { b.n++; return errors.New("disk full") }

func TestStateIsSavedAgainAfterAFailure(t *testing.T) {
	f := newFarm(t)
	b := &badState{}
	f.agent.p.State = b
	f.put("p", "x")
	f.pass(30 * time.Minute)
	if b.n < 2 {
		t.Errorf("saved %d times: never tried again", b.n)
	}
}

// Admin starts the domain between shutdown and define.
func TestI08_AdminStartsTheOldGuestInBetween(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	old := f.proxy("p").Instance
	f.put("p", "edited")
	for range 300 {
		ef, more := f.next()
		if !more {
			break
		}
		if a, ok := ef.(RunAction); ok && a.Action.Kind == plan.Define {
			f.hv.AdminStart(uuid)
		}
		f.run(ef)
		if d, _ := f.hv.Domain(uuid); d.Power == observe.PowerRunning {
			found := false
			for _, i := range f.tree.incs["p"] {
				found = found || i.Instance == old
			}
			x, _ := f.hv.DomainXML(t.Context(), uuid, false)
			if strings.Contains(x, old) && !found {
				t.Fatalf("the overlay %s of a running domain is gone; did %v", old, f.ran)
			}
		}
	}
	t.Log(f.ran)
}

// Relist lost on error.
func TestConnectedIsNotForgotten(t *testing.T) {
	f := newFarm(t)
	f.queue = nil // the list is under way, begun before the link was up
	f.step(Hint{observe.Event{Kind: observe.Connected}})
	f.step(DomainsListed{Err: disco})
	for _, e := range f.queue {
		if _, ok := e.(ListDomains); ok {
			return
		}
	}
	t.Errorf("Connected is forgotten; next look in %s", f.agent.core.Wake().Sub(f.now))
}

// List older than an absent look.
func TestAnOldListBringsNothingBack(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.step(Hint{observe.Event{Kind: observe.Overflow}})
	f.queue = nil
	ds, _ := f.hv.ListDomains(t.Context())
	f.step(Hint{observe.Event{Kind: observe.DomainChanged, UUID: uuid}})
	f.hv.AdminDestroy(uuid)
	f.hv.AdminUndefine(uuid)
	d, err := f.hv.LookupDomain(t.Context(), uuid)
	f.step(DomainLooked{UUID: uuid, Domain: d, Err: err})
	f.step(DomainsListed{Domains: ds})
	if _, there := f.agent.core.obs.Domains[uuid]; there {
		t.Error("an older list brought it back")
	}
}

// Volume gone during an action.
type realish struct{ *memTree }

func (r realish) ScanName(n string) []observe.Incarnation {
	if r.marker != observe.MarkerOK {
		return nil
	}
	return r.memTree.ScanName(n)
}
func TestI16_AScanThatSawNothingDecidesNothing(t *testing.T) {
	f := up(t)
	before := f.proxy("p").Instance
	f.agent.p.Tree, f.agent.p.Executor.Tree = realish{f.tree}, realish{f.tree}
	sp := f.spec("p", "#cloud-config\n")
	sp.Memory *= 2
	f.specs["p"] = sp
	f.step(f.read())
	for range 300 {
		ef, more := f.next()
		if !more {
			break
		}
		a, ok := ef.(RunAction)
		if ok && a.Action.Kind == plan.Shutdown {
			f.tree.marker = observe.MarkerAbsent
		}
		f.run(ef)
		if ok && a.Action.Kind == plan.Shutdown {
			f.tree.marker = observe.MarkerOK
		} // a flap
	}
	f.pass(2 * time.Minute)
	if slices.Contains(f.ran, "prepare p") {
		t.Errorf("a disk decision on a scan that saw nothing: %v", f.ran)
	}
	if p := f.proxy("p"); p.Instance != before {
		t.Errorf("rebuilt: %s -> %s, %v", before, p.Instance, f.ran)
	}
}

// Short absence drops addresses.
func TestI09_AddressesStayWhileTheVMRuns(t *testing.T) {
	f := up(t)
	s := f.specs["p"]
	f.remove("p")
	f.settle()
	if p := f.proxy("p"); len(p.Addresses) == 0 {
		t.Errorf("RemovalPending, running, and no address: %+v", p)
	}
	f.specs["p"] = s
	f.step(f.read())
	f.settle()
}

// A late look makes the planner redefine a running domain on a new overlay and then remove the one it runs on.
func TestI08_ALateLookDoesNotCostTheDisk(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.AdminDestroy(uuid)
	d, err := f.hv.LookupDomain(t.Context(), uuid) // a look reads "off"; its answer is late
	late := DomainLooked{UUID: uuid, Domain: d, Err: err}
	f.settle() // started again
	f.wantReady("p")
	live, _ := f.hv.DomainXML(t.Context(), uuid, false)
	f.put("p", "edited")
	prepare := f.queue[len(f.queue)-1].(RunAction)
	f.queue = nil
	f.step(late)
	f.queue = nil // the look it asks for comes in its time
	f.run(prepare)
	f.settle()
	f.pass(time.Minute)
	now, _ := f.hv.DomainXML(t.Context(), uuid, false)
	if now != live {
		return
	} // it was shut down first: fine
	if !strings.Contains(live, f.tree.incs["p"][0].Instance) {
		t.Errorf("runs on a removed overlay; did %v; phase %s", f.ran, f.proxy("p").Phase)
	}
}

type slowTree struct {
	Tree
	d time.Duration
}

func (s slowTree) Scan() observe.Tree { time.Sleep(s.d); return s.Tree.Scan() }

func TestRunEndsWhateverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		p := f.agent.p
		p.Now, p.Alive = time.Now, func(status.Host) {}
		p.Tree = slowTree{f.tree, 7500 * time.Millisecond}
		p.Prober = f
		p.Sources = []Source{stuckSource{}}
		p.Hypervisor = slowHV{f.hv}
		a := New(p)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		a.Run(ctx)
		start := 10 * time.Millisecond
		t.Log(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) - start)
		if d := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); d > 10*time.Second {
			t.Errorf("Run took %s to end", d)
		}
		time.Sleep(time.Hour)
	})
}

type slowHV struct{ Hypervisor }

func (h slowHV) ListDomains(context.Context) ([]observe.RawDomain, error) {
	time.Sleep(15 * time.Second)
	return nil, transient
}
func (h slowHV) NetworkPrefixes(context.Context, string) ([]netip.Prefix, error) {
	return nil, transient
}

type stuckSource struct{}

func (stuckSource) Run(ctx context.Context, _ func(source.Snapshot)) error {
	time.Sleep(22 * time.Second)
	return nil
}
func (stuckSource) Rescan() {}
