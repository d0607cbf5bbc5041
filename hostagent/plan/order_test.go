package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

var errFake = errors.New("fake")

func TestRecreate(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	w.obey(w.make(), order.Order{Verb: order.Recreate, Name: "p0"})
	w.restart()
	w.wantActed(w.make(), "prepare p0")
	w.incarnate(specs[0], inst2)
	r := w.make()
	w.wantActed(r, "shutdown p0")
	w.wantCondition(r, "p0", status.Synced, status.False, "Updating")
	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	r = w.make()
	w.wantActed(r, "define p0")
	if r.Actions[0].Instance != inst2 {
		t.Errorf("defined on %s again", r.Actions[0].Instance)
	}
	w.domain(specs[0], inst2, observe.PowerOff)
	w.wantActed(w.make(), "start p0")
	w.domain(specs[0], inst2, observe.PowerRunning)
	w.wantActed(w.make(), "discard p0")
	if m := w.Memory.Proxies["p0"]; m.Recreate != "" {
		t.Errorf("it would be made anew again: %+v", m.Kept)
	}
}

func TestPauseKeepsTheHandsOff(t *testing.T) {
	for name, all := range map[string]bool{"one": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			w, specs := proxiesWorld(t, 3)
			o := order.Order{Verb: order.Pause, Name: "p0"}
			if all {
				o = order.Order{Verb: order.Pause, All: true}
			}
			w.obey(w.make(), o)
			w.restart()
			w.domain(specs[0], instanceOf(0), observe.PowerOff)
			r := w.make()
			w.wantActed(r)
			if p := w.shown(r, "p0"); p.Phase != status.PhasePaused {
				t.Errorf("phase %s", p.Phase)
			}
			w.wantActed(w.drop(1, specs)) // not even when its spec is gone
			w.list(9, w.Now, specs...)
			w.make()
			o.Verb = order.Resume
			w.obey(w.make(), o)
			w.wantActed(w.make(), "start p0")
		})
	}
	t.Run("resume --all leaves what was paused by name", func(t *testing.T) {
		w, _ := proxiesWorld(t, 2)
		w.obey(w.make(), order.Order{Verb: order.Pause, Name: "p0"})
		text := w.obey(w.make(), order.Order{Verb: order.Resume, All: true})
		if p := w.shown(w.make(), "p0"); p.Phase != status.PhasePaused || !strings.Contains(text, "p0") {
			t.Errorf("%s: %s", p.Phase, text)
		}
	})
}

func TestResumeEndsACrashLoop(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	for range 5 {
		w.Memory = w.Memory.Done(Action{Kind: Start, Name: "p0"}, nil, w.Now)
		w.pass(2 * time.Second)
	}
	w.restart()
	r := w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.True, "CrashLoop")
	w.obey(r, order.Order{Verb: order.Resume, Name: "p0"})
	w.wantActed(w.make(), "start p0")
	if n := w.shown(w.make(), "p0").Starts; n != 6 { // the one before the agent knew it, too
		t.Errorf("%d starts are shown", n)
	}
}

func TestDeleteIsForWhatNobodyLists(t *testing.T) {
	w, specs := proxiesWorld(t, 2)
	w.refuse(w.make(), order.Order{Verb: order.Delete, Name: "p0"})
	w.refuse(w.make(), order.Order{Verb: order.Delete, Name: "nobody"})
	w.Desired = source.Merge() // the source was taken out of the config
	r := w.make()
	w.wantActed(r)
	if r.Counts.Orphaned != 2 || r.Counts.Managed != 2 {
		t.Errorf("%+v", r.Counts)
	}
	w.obey(r, order.Order{Verb: order.Delete, Name: "p0"})
	w.restart()
	w.wantActed(w.make(), "shutdown p0")
	w.list(5, w.Now, specs...) // and back: it is not to be removed later
	w.make()
	w.Desired = source.Merge()
	w.wantActed(w.make())
}

func TestAdopt(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	d := w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	d.Owner = nil
	w.Observed.Domains[d.UUID] = d
	r := w.make()
	w.wantActed(r)
	w.obey(r, order.Order{Verb: order.Adopt, Name: "p0"})
	r = w.make()
	w.wantActed(r, "adopt p0")
	if r.Actions[0].Instance != instanceOf(0) {
		t.Errorf("on %q", r.Actions[0].Instance)
	}
	w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	w.wantActed(w.make())
	w.refuse(w.make(), order.Order{Verb: order.Adopt, Name: "p0"})
}

// TestHostIDChanged: VMs and tree carry another host id; nothing is made or
// removed until it is taken on.
func TestHostIDChanged(t *testing.T) {
	changed := func(t *testing.T) *world {
		w, specs := proxiesWorld(t, 2)
		w.restart()
		w.Policy.HostID = "host-new"
		w.UUID = func(identity string) string { return domxml.DomainUUID("host-new", identity) }
		w.Observed.Tree = observe.Tree{Marker: observe.MarkerForeign, Host: host, Detail: "names another host"}
		w.list(2, w.Now, append(specs, w.spec("fresh"))...)
		return w
	}
	w := changed(t)
	r := w.make()
	w.wantActed(r)
	for _, p := range r.Proxies {
		w.wantCondition(r, p.Name, status.Synced, status.False, "HostIDChanged")
	}
	w.wantHost(r, status.ImageTree, status.False, "HostIDChanged")
	w.obey(r, order.Order{Verb: order.Adopt, All: true})
	if w.Memory.HostID != host {
		t.Errorf("took on %q", w.Memory.HostID)
	}
	t.Run("a new tree in its place", func(t *testing.T) {
		w := changed(t)
		w.Observed.Tree = observe.Tree{Marker: observe.MarkerAbsent, Empty: true}
		w.Memory.TreeKnown = false
		w.wantActed(w.make())
		w.obey(w.make(), order.Order{Verb: order.Adopt, All: true})
	})
	t.Run("ids of two hosts", func(t *testing.T) {
		w := changed(t)
		d := observe.Domain{RawDomain: observe.RawDomain{UUID: domxml.DomainUUID("host-3", "x"), Name: "egress-x"}, Owner: &observe.Ownership{Host: "host-3", Name: "x", Instance: inst}}
		w.Observed.Domains[d.UUID] = d
		w.refuse(w.make(), order.Order{Verb: order.Adopt, All: true})
	})
	t.Run("the config sets the id", func(t *testing.T) {
		w := changed(t)
		w.Policy.HostIDGiven = true
		if err := w.refuse(w.make(), order.Order{Verb: order.Adopt, All: true}); !strings.Contains(err.Error(), host) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a VM that came over from another host changes nothing", func(t *testing.T) {
		w, _ := proxiesWorld(t, 1)
		d := observe.Domain{RawDomain: observe.RawDomain{UUID: domxml.DomainUUID("host-3", "x"), Name: "egress-x"}, Owner: &observe.Ownership{Host: "host-3", Name: "x", Instance: inst}}
		w.Observed.Domains[d.UUID] = d
		r := w.make()
		w.wantCondition(r, "p0", status.Synced, status.True, "InSync")
		w.refuse(r, order.Order{Verb: order.Adopt, All: true})
	})
}

func TestI05_AbandonFreesTheNameUnseen(t *testing.T) {
	for name, blind := range map[string]func(*world){
		"seen":            func(*world) {},
		"libvirt is gone": func(w *world) { w.Observed.Libvirt = Libvirt{Tried: true}; w.Observed.Domains = nil },
		"it can not be read": func(w *world) {
			w.Observed.Unsure = map[string]string{domxml.DomainUUID(host, "p0"): "hangs"}
		},
		"the tree is not mounted": func(w *world) { w.Observed.Tree = observe.Tree{Marker: observe.MarkerAbsent} },
	} {
		t.Run(name, func(t *testing.T) {
			w, specs := proxiesWorld(t, 2)
			domains, tree := w.Observed.Domains, w.Observed.Tree
			blind(w)
			w.obey(w.make(), order.Order{Verb: order.Abandon, Name: "p0"})
			w.list(2, w.Now, specs[1])
			r := w.make()
			for _, p := range r.Proxies {
				if p.Name == "p0" {
					t.Errorf("the name is not free: %+v", p)
				}
			}
			w.wantActed(r) // nothing before the tombstone is on disk
			w.saved()
			w.make()
			// When it can be seen again, it is nobody's.
			w.Observed.Domains, w.Observed.Tree, w.Observed.Unsure, w.Observed.Libvirt = domains, tree, nil, Libvirt{Synced: true}
			w.Memory = w.Memory.Done(Action{Kind: Disown, Name: "p0", UUID: domxml.DomainUUID(host, "p0")}, errFake, w.Now)
			w.restart()
			w.wantActed(w.drop(1, specs))
			if r := w.make(); r.Counts.Abandoned != 1 || r.Counts.Managed != 1 {
				t.Errorf("%+v", r.Counts)
			}
		})
	}
}

// saved puts the tombstones on disk.
func (w *world) saved() {
	for uuid, tomb := range w.Memory.Tombstones {
		tomb.Saved = true
		w.Memory.Tombstones[uuid] = tomb
	}
}

func TestI05_AnAbandonedVMKeepsItsNameUntilItIsRenamed(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	old := domxml.DomainUUID(host, "p0")
	w.obey(w.make(), order.Order{Verb: order.Abandon, Name: "p0"})
	w.saved()
	r := w.make()
	w.wantActed(r, "disown p0")
	if a := r.Actions[0]; a.UUID != old || !a.On {
		t.Errorf("%+v", a)
	}
	w.Memory = w.Memory.Done(r.Actions[0], nil, w.Now)
	r = w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.False, "Conflict")
	d := w.Observed.Domains[old]
	d.Name, d.Owner = "mine", nil
	w.Observed.Domains[old] = d
	r = w.make()
	w.wantActed(r, "prepare p0")
	next := r.Actions[0]
	if next.UUID == old || next.Generation != 1 || next.UUID != domxml.DomainUUID(host, domxml.Identity("p0", 1)) {
		t.Errorf("the new VM would be %s, generation %d; the old one is %s", next.UUID, next.Generation, old)
	}
	t.Run("also when the tombstone was lost", func(t *testing.T) {
		w.Memory = Memory{}
		rec := w.Observed.Tree.Incarnations["p0"][0].Record
		rec.Abandoned = true
		if r := w.make(); len(r.Actions) != 1 || r.Actions[0].UUID != next.UUID {
			t.Errorf("%+v", r.Actions)
		}
		w.list(9, w.Now, specs...)
	})
}

func TestI05_SkipCleanup(t *testing.T) {
	for name, bend := range map[string]func(*world){
		"seen":               func(*world) {},
		"libvirt is gone":    func(w *world) { w.Observed.Libvirt = Libvirt{Tried: true} },
		"state was lost":     func(w *world) { w.Memory = Memory{} },
		"it can't be read":   func(w *world) { w.Observed.Unsure = map[string]string{domxml.DomainUUID(host, "p0"): "hangs"} },
		"an action is under": func(w *world) { w.Observed.Busy = map[string]Kind{"p0": Start} },
	} {
		t.Run(name, func(t *testing.T) {
			w, specs := proxiesWorld(t, 3)
			specs[0].SkipCleanup = true
			w.list(2, w.Now, specs...)
			r := w.make()
			w.wantActed(r, "record p0")
			w.Observed.Tree.Incarnations["p0"][0].Record.SkipCleanup = true
			w.wantActed(w.make())
			bend(w)
			w.wantActed(w.drop(1, specs))
			tomb, ok := w.Memory.Tombstones[domxml.DomainUUID(host, "p0")]
			if !ok || tomb.Name != "p0" {
				t.Fatalf("%+v", w.Memory.Tombstones)
			}
		})
	}
	t.Run("a mass of them is held", func(t *testing.T) {
		w, specs := proxiesWorld(t, 3)
		for i := range specs {
			specs[i].SkipCleanup = true
		}
		w.list(2, w.Now, specs...)
		w.make()
		w.drop(2, specs)
		if len(w.Memory.Tombstones) != 0 {
			t.Errorf("%+v", w.Memory.Tombstones)
		}
	})
}

func TestGarbage(t *testing.T) {
	const old = "0000000000000000000000000000000000000000000000000000000000000000"
	w, _ := proxiesWorld(t, 1)
	w.Images = map[string]spec.Image{"debian": {SHA256: digest}}
	w.Observed.Tree.Bases[old] = observe.Base{SHA256: old}
	w.Observed.Tree.Incarnations["stray"] = []observe.Incarnation{
		{Name: "stray", Instance: inst, Overlay: true},
		{Name: "stray", Instance: inst2, Overlay: true, Problem: "its record is of a newer version"},
	}
	w.wantActed(w.make())
	w.pass(59 * time.Minute)
	w.wantActed(w.make())
	t.Run("a link that is down starts nothing", func(t *testing.T) {
		w.Observed.Libvirt.Synced = false
		w.pass(2 * time.Minute)
		w.wantActed(w.make())
		w.Observed.Libvirt.Synced = true
	})
	r := w.make()
	w.wantKinds(r, Collect)
	want := []string{old, "stray." + inst}
	if d := cmp.Diff(want, r.Actions[0].files()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	t.Run("what somebody refers to is asked for again after another grace", func(t *testing.T) {
		w.Memory = w.Memory.Done(r.Actions[0], nil, w.Now)
		w.wantActed(w.make())
		w.pass(61 * time.Minute)
		w.wantKinds(w.make(), Collect)
	})
	for name, use := range map[string]func(){
		"config": func() { w.Images["old"] = spec.Image{SHA256: old} },
		"spec":   func() { s := w.spec("q"); s.Image.SHA256 = old; w.list(5, w.Now, w.spec("p0"), s) },
		"record": func() { w.Observed.Tree.Incarnations["p0"][0].Record.Base = old },
		"claim of another host": func() {
			w.Observed.Domains["u"] = observe.Domain{Owner: &observe.Ownership{Host: "host-2", Base: old}}
		},
	} {
		t.Run("used by a "+name, func(t *testing.T) {
			w, _ = proxiesWorld(t, 1)
			w.Images = map[string]spec.Image{"debian": {SHA256: digest}}
			w.Observed.Tree.Bases[old] = observe.Base{SHA256: old}
			use()
			w.make()
			w.pass(2 * time.Hour)
			for _, a := range w.make().Actions {
				if a.Kind == Collect {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// TestCase171_ClockOfARestart: times from a wrong clock make nothing wait long.
func TestCase171_ClockOfARestart(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	future := w.Now.AddDate(30, 0, 0)
	m := w.Memory.Proxies["p0"]
	m.Starts = Starts{Last: future, Short: 2}
	m.Running = Retry{Kind: Start, Failures: 3, Next: future, Class: observe.Transient, Hash: specs[0].Hash()}
	w.Memory.Proxies["p0"] = m
	w.Memory.Removed = []Removal{{Name: "x", At: future}}
	w.restart()
	w.make()
	w.pass(11 * time.Minute)
	w.wantActed(w.make(), "start p0")
	if len(w.Memory.Removed) != 0 {
		t.Error("a removal of the future counts for ever")
	}
}
