package hostagent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

func (f *farm) wantTook(want ...string) {
	f.t.Helper()
	if d := cmp.Diff(want, f.took()); d != "" {
		f.t.Errorf("actions (-want +took):\n%s", d)
	}
}

func (f *farm) wantSynced(name string, want status.Truth, reason string) {
	f.t.Helper()
	if c, _ := f.proxy(name).Condition(status.Synced); c.Status != want || c.Reason != reason {
		f.t.Errorf("%s: %+v, want %s %s", name, c, want, reason)
	}
}

// TestCase076_TeardownOrder: stop, undefine, files; a guest that takes its time
// and an undefine that fails do not change it.
func TestCase076_TeardownOrder(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.IgnoreShutdown(uuid, true)
	f.hv.Fail("Undefine", 1, &observe.Error{Op: "undefine", Class: observe.Transient, Err: errors.New("busy")})
	f.remove("p")
	for range 300 {
		ef, more := f.next()
		if !more {
			f.now = f.now.Add(time.Second)
			f.step(Tick{})
			continue
		}
		f.run(ef)
		if _, there := f.hv.Domain(uuid); there && len(f.tree.incs["p"]) == 0 {
			t.Fatal("its files went before its domain")
		}
	}
	took := slices.Compact(f.took())
	if d := cmp.Diff([]string{"shutdown p", "destroy p", "undefine p", "discard p"}, took); d != "" {
		t.Errorf("(-want +took):\n%s", d)
	}
	if len(f.tree.bases) != 1 {
		t.Error("the base image went with it")
	}
}

// TestCase077_NeverTheOldDisk: a changed image means a fresh overlay, and the old
// one goes after the new guest was started.
func TestCase077_NeverTheOldDisk(t *testing.T) {
	f := up(t)
	old := f.proxy("p").Instance
	s := f.spec("p", "#cloud-config\n")
	s.Image.SHA256 = strings.Repeat("e", 64)
	f.specs["p"] = s
	f.step(f.read())
	f.pass(3 * time.Minute)
	if now := f.wantReady("p").Instance; now == old {
		t.Error("the overlay is the old one")
	}
	f.wantTook("fetch-image ", "prepare p", "shutdown p", "define p", "start p", "discard p")
}

func TestCase078_ARebootIsNobodysBusiness(t *testing.T) {
	f := up(t)
	before := f.hv.String()
	f.step(Hint{observe.Event{Kind: observe.DomainChanged, UUID: f.proxy("p").UUID, Detail: "rebooted"}})
	f.pass(5 * time.Minute)
	f.wantTook()
	if d := cmp.Diff(before, f.hv.String()); d != "" {
		t.Error(d)
	}
}

// TestCase079_WhoeverStoppedIt: it is started again, and that is counted.
func TestCase079_WhoeverStoppedIt(t *testing.T) {
	for name, stop := range map[string]func(*virttest.Fake, string){
		"the guest":      (*virttest.Fake).GuestPowerOff,
		"an admin":       (*virttest.Fake).AdminDestroy,
		"a managed save": (*virttest.Fake).AdminSave,
	} {
		t.Run(name, func(t *testing.T) {
			f := up(t)
			f.pass(20 * time.Minute)
			starts := f.proxy("p").Starts
			stop(f.hv, f.proxy("p").UUID)
			f.pass(time.Minute)
			f.wantTook("start p")
			if now := f.wantReady("p").Starts; now != starts+1 {
				t.Errorf("%d starts, there were %d", now, starts)
			}
		})
	}
}

// TestCase081_OneRequestMayBeLost: a guest that is still booting hears the second.
func TestCase081_OneRequestMayBeLost(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.IgnoreShutdown(uuid, true)
	f.remove("p")
	f.pass(45 * time.Second)
	f.hv.IgnoreShutdown(uuid, false)
	f.pass(2 * time.Minute)
	took := f.took()
	if slices.Contains(took, "destroy p") || !slices.Contains(took, "discard p") {
		t.Errorf("%v", took)
	}
}

func TestCase086_NothingLeftToRemoveIsSuccess(t *testing.T) {
	t.Run("transient", func(t *testing.T) {
		f := up(t)
		f.hv.AdminUndefine(f.proxy("p").UUID)
		f.remove("p")
		f.pass(5 * time.Minute)
		if n := len(f.agent.core.Status(f.now).Proxies) + len(f.tree.incs); n != 0 {
			t.Errorf("%d things left", n)
		}
	})
	t.Run("gone between planning and acting", func(t *testing.T) {
		f := up(t)
		uuid := f.proxy("p").UUID
		f.remove("p")
		f.pass(31 * time.Second)
		if d, there := f.hv.Domain(uuid); there {
			if d.Power != observe.PowerOff {
				f.hv.AdminDestroy(uuid)
			}
			f.hv.AdminUndefine(uuid)
		}
		f.pass(5 * time.Minute)
		if n := len(f.agent.core.Status(f.now).Proxies) + len(f.tree.incs); n != 0 {
			t.Errorf("%d things left", n)
		}
	})
}

// TestCase087_094_HostReboot: everything is persistent and comes up once;
// nothing is started twice, whoever starts it first.
func TestCase087_094_HostReboot(t *testing.T) {
	f := newFarm(t)
	f.startInterval = 2 * time.Second
	f.boot()
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		f.specs[name] = f.spec(name, "x")
	}
	f.step(f.read())
	f.pass(2 * time.Minute)
	for i := range 5 { // two of them libvirt does not start
		f.hv.AdminSetAutostart(f.proxy(fmt.Sprintf("p%d", i)).UUID, i > 1)
	}
	f.took()
	f.hv.RebootHost()
	f.boot()
	f.pass(2 * time.Minute)
	for i := range 5 {
		f.wantReady(fmt.Sprintf("p%d", i))
	}
	var starts []string
	for _, a := range f.took() {
		if strings.HasPrefix(a, "start ") {
			starts = append(starts, a)
		}
	}
	if d := cmp.Diff([]string{"start p0", "start p1"}, starts); d != "" {
		t.Errorf("(-want +took):\n%s", d)
	}
}

func TestCase088_SameNameOtherUUIDIsAConflict(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	xml, _ := f.hv.AdminXML(uuid)
	f.hv.AdminDestroy(uuid)
	f.hv.AdminUndefine(uuid)
	f.hv.AdminDefine(strings.ReplaceAll(xml, uuid, "11111111-2222-3333-4444-555555555555"))
	before := f.hv.String()
	f.pass(5 * time.Minute)
	f.wantSynced("p", status.False, "Conflict")
	if d := cmp.Diff(before, f.hv.String()); d != "" {
		t.Error(d)
	}
}

// TestCase091_WhatIsNotTakenUpIsNotShownAsTakenUp: with on_change = "hold" a
// running guest keeps its memory, and the spec is not Synced.
func TestCase091_WhatIsNotTakenUpIsNotShownAsTakenUp(t *testing.T) {
	f := up(t)
	s := f.spec("p", "#cloud-config\n")
	s.Memory, s.Hold = 512<<20, true
	f.specs["p"] = s
	f.step(f.read())
	f.pass(5 * time.Minute)
	f.wantTook()
	f.wantSynced("p", status.False, "ChangePending")
	s.Hold = false
	f.specs["p"] = s
	f.step(f.read())
	f.pass(3 * time.Minute)
	f.wantTook("shutdown p", "define p", "start p")
	f.wantReady("p")
}

// TestI09_Case092_ADeadGuestIsSeenByItsProbe: it is shown, once, and left alone.
func TestI09_Case092_ADeadGuestIsSeenByItsProbe(t *testing.T) {
	f := up(t)
	f.probeOK = false
	f.pass(time.Hour)
	f.wantTook()
	if c, _ := f.proxy("p").Condition(status.Reachable); c.Status != status.False {
		t.Errorf("%+v", c)
	}
	if p := f.proxy("p"); p.Phase != status.PhaseDegraded {
		t.Errorf("phase %s", p.Phase)
	}
}

// TestCase093_BackoffOutlivesTheAgent: a guest that dies at once is started ever
// later, also by an agent that is restarted all the time.
func TestCase093_BackoffOutlivesTheAgent(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	starts := 0
	for end := f.now.Add(30 * time.Minute); f.now.Before(end); {
		if d, _ := f.hv.Domain(uuid); d.Power == observe.PowerRunning {
			f.hv.GuestPowerOff(uuid)
		}
		f.boot()
		f.pass(5 * time.Second)
		for _, a := range f.took() {
			if a == "start p" {
				starts++
			}
		}
	}
	if starts < 4 || starts > 14 {
		t.Errorf("%d starts in half an hour", starts)
	}
}

// TestCase095_TheLastWordCounts: removed and back within a moment, again and
// again; steps of one name never overlap.
func TestCase095_TheLastWordCounts(t *testing.T) {
	f := up(t)
	was := f.proxy("p").Instance
	s := f.specs["p"]
	for range 20 {
		f.remove("p")
		f.now = f.now.Add(time.Millisecond)
		f.specs["p"] = s
		f.step(f.read())
	}
	f.pass(3 * time.Minute)
	f.wantTook()
	if now := f.wantReady("p").Instance; now != was {
		t.Error("it was made anew")
	}
}

// TestI01_Case099_NothingBeforeTheFirstLook: fifty restarts with a slow libvirt
// and the specs read first do nothing.
func TestI01_Case099_NothingBeforeTheFirstLook(t *testing.T) {
	f := newFarm(t)
	for i := range 5 {
		f.specs[fmt.Sprintf("p%d", i)] = f.spec(fmt.Sprintf("p%d", i), "x")
	}
	f.step(f.read())
	f.pass(2 * time.Minute)
	f.took()
	for range 50 {
		f.hv.Fail("ListDomains", 2, &observe.Error{Op: "list", Class: observe.Disconnected, Err: errors.New("not yet")})
		f.boot()
		f.pass(10 * time.Second)
	}
	f.pass(time.Minute)
	f.wantTook()
	for i := range 5 {
		f.wantReady(fmt.Sprintf("p%d", i))
	}
}

// TestCase171_174_WrongClocks: a clock that jumps between two runs of the agent
// neither stops nor hurries anything.
func TestCase171_174_WrongClocks(t *testing.T) {
	for name, to := range map[string]func(time.Time) time.Time{
		"an hour back":    func(now time.Time) time.Time { return now.Add(-time.Hour) },
		"thirty years on": func(now time.Time) time.Time { return now.AddDate(30, 0, 0) },
		"1970":            func(time.Time) time.Time { return time.Unix(180, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := up(t)
			f.now = to(f.now)
			f.boot()
			f.pass(5 * time.Minute)
			f.wantReady("p")
			f.wantTook()
			f.hv.GuestPowerOff(f.proxy("p").UUID)
			f.pass(15 * time.Minute)
			f.wantReady("p")
			f.remove("p")
			f.pass(5 * time.Minute)
			if n := len(f.agent.core.Status(f.now).Proxies); n != 0 {
				t.Errorf("%d proxies are not removed", n)
			}
		})
	}
}

// TestI04_ACloneIsForeign: a copy of a domain with our metadata is not ours.
func TestI04_ACloneIsForeign(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	xml, _ := f.hv.AdminXML(uuid)
	xml = strings.ReplaceAll(xml, uuid, "11111111-2222-3333-4444-555555555555")
	clone := f.hv.AdminDefine(strings.ReplaceAll(xml, "<name>"+domxml.DomainName("p"), "<name>copy"))
	before, _ := f.hv.Domain(clone)
	f.remove("p")
	f.pass(5 * time.Minute)
	if after, ok := f.hv.Domain(clone); !ok || after != before {
		t.Errorf("the clone is %+v, it was %+v", after, before)
	}
}
