package hostagent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// runUntil runs effects until the next one is an action of that kind, which
// stays in the queue.
func (f *farm) runUntil(kind plan.Kind) {
	f.t.Helper()
	for range 5000 {
		for i, e := range f.queue {
			if a, ok := e.(RunAction); ok && a.Action.Kind == kind {
				f.queue[0], f.queue[i] = f.queue[i], f.queue[0]
				return
			}
		}
		ef, more := f.next()
		if more {
			f.run(ef)
			continue
		}
		f.now = f.agent.core.Wake().Add(time.Millisecond)
		f.step(Tick{})
	}
	f.t.Fatal("never ", kind)
}

// TestAbandonedWhileAnActionWaits: an action that waits in its lane is run though the VM was abandoned.
func TestAbandonedWhileAnActionWaits(t *testing.T) {
	for _, kind := range []plan.Kind{plan.Shutdown, plan.Undefine, plan.Discard} {
		f := up(t)
		uuid := f.proxy("p").UUID
		f.remove("p")
		f.runUntil(kind)
		act := f.queue[0]
		f.queue = f.queue[1:]
		f.step(Ordered{ID: 7, Order: order.Order{Verb: order.Abandon, Name: "p"}})
		f.settle() // the lane is full of what hangs
		if len(f.answers) != 1 || f.answers[0].Err != nil {
			t.Fatalf("%+v", f.answers)
		}
		t.Log(f.answers[0].Text)
		before := len(f.hv.Changes())
		incs := len(f.tree.incs["p"])
		f.run(act)
		f.settle()
		if got := f.hv.Changes()[before:]; len(got) > 0 && !strings.Contains(strings.ToLower(got[0]), "metadata") || len(f.tree.incs["p"]) != incs {
			t.Errorf("%s: after it was abandoned: %v; %d of %d incarnations left", kind, got, len(f.tree.incs["p"]), incs)
		}
		_ = uuid
	}
}

// TestPausedWhileAnActionWaits: pause --all is answered, and what waits in the lanes goes on.
func TestPausedWhileAnActionWaits(t *testing.T) {
	f := up(t)
	f.remove("p")
	f.runUntil(plan.Undefine)
	act := f.queue[0]
	f.queue = f.queue[1:]
	f.step(Ordered{ID: 7, Order: order.Order{Verb: order.Pause, All: true}})
	f.settle()
	if len(f.answers) != 1 {
		t.Fatal(f.answers)
	}
	before := len(f.hv.Changes())
	f.run(act)
	f.settle()
	if got := f.hv.Changes()[before:]; len(got) > 0 {
		t.Errorf("%q, and then %v", f.answers[0].Text, got)
	}
}

// TestRewireForEver: an adopted id and a config that names the machine's own again.
func TestRewireForEver(t *testing.T) {
	f := up(t)
	p := f.parts()
	p.Kept.Memory.HostID = "host-adopted" // taken on once
	p.Settings.Policy.HostIDGiven = true  // and now [host] id = testHost
	c := NewCore(p.Settings, p.Kept)
	effects := c.Step(f.now, Hint{observe.Event{Kind: observe.Connected}}, f.read())
	effects = append(effects, c.Step(f.now, StateSaved{})...)
	for _, e := range effects {
		if _, ok := e.(TakeOnHostID); ok {
			t.Error("it ends to be made anew, with the same settings: for ever")
		}
	}
}

// TestTwoActionsOfOneName: two actions of one name after a crash between tombstone and disowning.
func TestTwoActionsOfOneName(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.AdminDestroy(uuid)
	f.step(Ordered{ID: 7, Order: order.Order{Verb: order.Abandon, Name: "p"}})
	f.hv.AdminUndefine(uuid)
	f.queue = nil // killed here
	f.agent = New(f.parts())
	f.step(Hint{observe.Event{Kind: observe.Connected}}, f.read())
	var scans []Effect
	for range 100 { // the tree is slow
		ef, more := f.next()
		if !more {
			break
		}
		if _, ok := ef.(ScanTree); ok {
			scans = append(scans, ef)
			continue
		}
		f.run(ef)
	}
	f.queue = nil
	for _, s := range scans {
		f.run(s)
	}
	n := 0
	for _, e := range f.queue {
		if a, ok := e.(RunAction); ok && a.Action.Name == "p" {
			t.Log(a.Action.Kind, a.Action.UUID)
			n++
		}
	}
	if n > 1 {
		t.Errorf("%d actions of p at once", n)
	}
	f.settle()
	f.pass(time.Minute)
	t.Log(f.ran)
}

// TestWaitingEditsPileUp: incarnations of edits that wait.
func TestWaitingEditsPileUp(t *testing.T) {
	f := newFarm(t)
	for _, n := range []string{"p", "q"} {
		f.put(n, "#cloud-config\n")
	}
	f.pass(time.Minute)
	f.wantReady("q")
	f.probeOK = false
	s := f.specs["p"]
	s.Memory *= 2
	f.specs["p"] = s
	f.step(f.read())
	f.pass(12 * time.Minute)
	t.Log(f.proxy("p").Phase, f.agent.core.memory.Proxies["p"].Down)
	for i := range 40 {
		f.put("q", strings.Repeat("x", i+1))
		f.pass(5 * time.Second)
	}
	if n := len(f.tree.incs["q"]); n > 3 {
		c, _ := f.proxy("q").Condition("Synced")
		t.Errorf("%d incarnations of q (%s)", n, c.Reason)
	}
}

// TestRemovalIsUndoneByARestartInDoubt: what was being removed comes back over a restart with the directory in doubt.
func TestRemovalIsUndoneByARestartInDoubt(t *testing.T) {
	for _, kind := range []plan.Kind{plan.Undefine, plan.Discard} {
		f := up(t)
		f.remove("p")
		f.runUntil(kind)
		f.settle1()
		kept := Restore(f.store.Content(), f.now, func(e2 e, err error) {})
		f.queue, f.ran = nil, nil
		f.agent = New(f.parts())
		f.synced = false
		f.step(Hint{observe.Event{Kind: observe.Connected}}, SourceRead{source.Snapshot{
			Origin: source.OriginDir, Read: f.now, Problem: "not mounted", Entries: kept.Specs[source.OriginDir],
		}})
		f.settle()
		if len(f.ran) > 0 {
			t.Errorf("removed by its file, twice seen; then: %v", f.ran)
		}
	}
}

// TestALateFailureOfTheAbandonedOne: failure of the abandoned VM holds up the next one.
func TestALateFailureOfTheAbandonedOne(t *testing.T) {
	f := newFarm(t)
	f.put("p", "x")
	f.runUntil(plan.Define)
	act := f.queue[0].(RunAction)
	f.queue = f.queue[1:]
	f.step(Ordered{ID: 7, Order: order.Order{Verb: order.Abandon, Name: "p"}})
	f.settle()
	f.step(ActionDone{Action: act.Action, Err: &observe.Error{Op: "define", Class: observe.Permanent, Err: errors.New("refused")}, Incarnations: f.tree.ScanName("p")})
	f.pass(2 * time.Minute)
	if p := f.proxy("p"); p.Phase != "Ready" {
		t.Errorf("the next VM: %s %+v, ran %v", p.Phase, p.Conditions[0], f.ran)
	}
}

// TestAnAbsenceFromBeforeTheLoss: an absence from before the link was lost.
func TestAnAbsenceFromBeforeTheLoss(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.step(Hint{observe.Event{Kind: observe.DomainChanged, UUID: uuid}})
	f.queue = nil // the look is under way
	f.step(Hint{observe.Event{Kind: observe.LinkLost}})
	f.step(DomainLooked{UUID: uuid, Err: observe.ErrNoDomain})
	f.hv.ShortList(1, uuid)
	f.step(Hint{observe.Event{Kind: observe.Connected}})
	f.settle()
	if got := f.took(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestNoCapacityForWhatRan: state lost, the host tight, a VM that ran goes off.
func TestNoCapacityForWhatRan(t *testing.T) {
	f := up(t)
	for _, e := range f.store.Content().Entries {
		f.store.Save(gone(e))
	}
	f.boot()
	f.pass(time.Minute)
	f.wantReady("p")
	f.took()
	f.memory = 100 << 20
	f.pass(time.Minute)
	f.hv.GuestPowerOff(f.proxy("p").UUID)
	f.pass(2 * time.Minute)
	if p := f.proxy("p"); p.Phase != "Ready" {
		t.Errorf("%s: %s %v", p.Phase, p.Conditions[0].Reason, f.took())
	}
}

var _ = domxml.Identity

type e = state.Entry

func gone(x state.Entry) state.Change { return state.Change{Entry: x, Gone: true} }

func (f *farm) settle1() {
	ef, more := f.next()
	if more {
		f.run(ef)
	}
}

func TestOffWithAChangeOnTheCore(t *testing.T) {
	f := up(t)
	f.lateSaves = true
	s := f.specs["p"]
	s.Off, s.Memory = true, s.Memory*2
	f.specs["p"] = s
	f.step(f.read())
	saves := 0
	for range 400 {
		ef, more := f.next()
		f.now = f.now.Add(3 * time.Millisecond)
		if !more {
			f.step(Tick{})
			continue
		}
		if _, ok := ef.(SaveState); ok {
			saves++
		}
		f.run(ef)
	}
	p := f.proxy("p")
	if saves > 20 {
		t.Errorf("after 1.2 s: %d saves, actions %v, %s: %+v", saves, f.took(), p.Phase, p.Conditions[0])
	}
}
