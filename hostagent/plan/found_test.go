package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// saved makes all of the memory count as on disk, as it is now.
func (w *world) saved2() {
	w.Stored = map[string]Kept{}
	for n, p := range w.Memory.Proxies {
		w.Stored[n] = p.Kept
	}
}

// TestOffWithAChange: power off together with a change: never taken down, a write each step.
func TestOffWithAChange(t *testing.T) {
	for _, anew := range []bool{false, true} {
		w, specs := proxiesWorld(t, 2)
		w.saved2()
		e := specs[0]
		e.Off = true
		if anew {
			e.UserData = spec.Secret("#cloud-config\n# x\n")
			w.incarnate(e, "i-00000000000000ff")
		} else {
			e.Memory *= 2
		}
		w.list(2, w.Now, e, specs[1])
		writes, acts := 0, 0
		for range 200 {
			r := w.make()
			acts += len(r.Actions)
			if w.Memory.Proxies["p0"].Kept != w.Stored["p0"] {
				writes++
			}
			w.saved2()
			w.pass(5 * time.Millisecond)
		}
		if acts == 0 || writes > 5 {
			t.Errorf("anew %v: %d actions, %d writes in 1 s", anew, acts, writes)
		}
	}
}

// TestOffWaitsForARollOut: power off with a change waits for a stopped roll-out.
func TestOffWaitsForARollOut(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	p := w.Memory.Proxies["p0"]
	p.Down = Down{Since: w.Now, Hash: p.Hash.String(), WasReady: true, Failed: "x"}
	delete(w.Observed.Probes, "p0")
	w.Memory.Proxies["p0"] = p
	e := specs[1]
	e.Off, e.Memory = true, e.Memory*2
	w.list(2, w.Now, specs[0], e, specs[2])
	r := w.make()
	if len(r.Actions) == 0 {
		c, _ := w.shown(r, "p1").Condition("Synced")
		t.Errorf("power off waits: %+v", c)
	}
}

// TestHoldWhileDraining: on_change=hold while it drains.
func TestHoldWhileDraining(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	e := specs[0]
	e.Memory *= 2
	e.Drain = time.Minute
	w.list(2, w.Now, e, specs[1], specs[2])
	w.make()
	e.Hold = true
	w.list(3, w.Now, e, specs[1], specs[2])
	r := w.make()
	p := w.shown(r, "p0")
	if p.Leaving {
		t.Errorf("waits with its change, runs and is kept out of list: %+v", p)
	}
	w.pass(11 * time.Minute)
	w.make()
	r = w.make()
	for _, c := range r.Host {
		if c.Type == "RollOut" && c.Status != "True" {
			t.Errorf("%+v", c)
		}
	}
}

// TestImageWhileDraining: second edit needs an image, while it drains for the first.
func TestImageWhileDraining(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	e := specs[0]
	e.Memory *= 2
	e.Drain = time.Minute
	w.list(2, w.Now, e, specs[1], specs[2])
	w.make()
	e.Image.SHA256 = "bbbb"
	w.list(3, w.Now, e, specs[1], specs[2])
	w.make()
	w.Observed.Fetching = map[string]Progress{"bbbb": {1, 2}}
	w.pass(5 * time.Minute)
	r := w.make()
	if p := w.shown(r, "p0"); p.Leaving {
		t.Errorf("out of list for the whole fetch: %s %s", p.Phase, p.Next)
	}
	w.pass(6 * time.Minute)
	w.make()
	r = w.make()
	for _, c := range r.Host {
		if c.Type == "RollOut" && c.Status != "True" {
			t.Errorf("%+v", c)
		}
	}
}

// TestTakenDownBeforeTheBaseIsThere: taken down though its base is not there.
func TestTakenDownBeforeTheBaseIsThere(t *testing.T) {
	w, specs := proxiesWorld(t, 2)
	e := specs[0]
	e.Memory *= 2
	delete(w.Observed.Tree.Bases, digest)
	w.list(2, w.Now, e, specs[1])
	r := w.make()
	for _, a := range r.Actions {
		if a.Kind == Shutdown {
			t.Errorf("taken down, cannot be defined: %v", acted(r))
		}
	}
}

// TestRecordMissingStaysOff: record missing, powered off, resized: stays off.
func TestRecordMissingStaysOff(t *testing.T) {
	w := newWorld(t)
	s := w.spec("p")
	w.incarnate(s, inst)
	w.domain(s, inst, observe.PowerOff)
	w.Observed.Tree.Incarnations["p"][0].Record = nil
	w.Observed.Tree.Incarnations["p"][0].Problem = "unreadable"
	w.make()
	w.pass(5 * time.Second)
	s.Memory *= 2
	w.list(2, w.Now, s)
	r := w.make()
	if len(r.Actions) == 0 {
		t.Errorf("stays off: %+v", r.Proxies[0].Conditions[0])
	}
}

// TestPrepareAndAutostartTakeTurns: retries that make each other forgotten.
func TestPrepareAndAutostartTakeTurns(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	d := w.Observed.Domains[w.UUID("p0")]
	d.Autostart = false
	w.Observed.Domains[d.UUID] = d
	e := specs[0]
	e.UserData = spec.Secret("x")
	w.list(2, w.Now, e)
	n := 0
	for range 100 {
		r := w.make()
		n += len(r.Actions)
		for _, a := range r.Actions {
			w.Memory = w.Memory.Done(a, errors.New("read-only file system"), w.Now)
		}
		w.pass(10 * time.Millisecond)
	}
	if n > 6 {
		t.Errorf("%d failing actions in a second", n)
	}
}

// TestRefusedDefineForgotten: a refused Define forgotten by a failing autostart.
func TestRefusedDefineForgotten(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	e := specs[0]
	e.Memory *= 2
	w.list(2, w.Now, e)
	p := w.Memory.Proxies["p0"]
	p.Retry = Retry{Kind: Define, Failures: 1, Class: observe.Permanent, Hash: e.Hash(), Error: "x"}
	w.Memory.Proxies["p0"] = p
	d := w.Observed.Domains[w.UUID("p0")]
	d.Autostart = false
	w.Observed.Domains[d.UUID] = d
	r := w.make()
	w.wantActed(r, "autostart p0")
	w.Memory = w.Memory.Done(r.Actions[0], errors.New("x"), w.Now)
	w.pass(2 * time.Second)
	r = w.make()
	for _, a := range r.Actions {
		if a.Kind == Shutdown {
			t.Errorf("taken down again for what was refused")
		}
	}
}

// TestNamelessTombstone: nameless tombstone: overlays without end.
func TestNamelessTombstone(t *testing.T) {
	w := newWorld(t)
	u := w.UUID("p")
	w.Memory.Tombstones = map[string]Tombstone{u: {UUID: u, Left: true, Saved: true, At: t0}}
	n := 0
	for i := range 10 {
		r := w.make()
		for _, a := range r.Actions {
			if a.Kind == Prepare {
				n++
				w.incarnate(w.spec("p"), instanceOf(i))
				incs := w.Observed.Tree.Incarnations["p"]
				incs[len(incs)-1].Record.UUID, incs[len(incs)-1].Record.Generation = a.UUID, a.Generation
				w.Memory = w.Memory.Done(a, nil, w.Now)
			}
		}
		w.pass(2 * time.Second)
	}
	if n > 1 {
		t.Errorf("%d incarnations made in 20 s", n)
	}
}

// TestDeleteBeforeSourcesWereRead: delete before the sources were read.
func TestDeleteBeforeSourcesWereRead(t *testing.T) {
	w, _ := proxiesWorld(t, 2)
	w.restart()
	w.Desired = source.Merge(source.Snapshot{Origin: source.OriginDir, Problem: "not read yet"})
	r := w.make()
	m, _, err := Obey(w.Input, r, order.Order{Verb: order.Delete, Name: "p0"})
	if err != nil {
		return
	}
	w.Memory = m
	r = w.make()
	r2 := w.make()
	if len(r.Actions)+len(r2.Actions) > 0 {
		t.Errorf("%v %v", acted(r), acted(r2))
	}
}

// TestEmptiedInTwoReads: a source that turns empty, seen in two reads.
func TestEmptiedInTwoReads(t *testing.T) {
	w, specs := proxiesWorld(t, 4)
	w.list(2, w.Now, specs[1:]...)
	w.make()
	w.pass(time.Second)
	w.list(3, w.Now)
	w.make()
	w.pass(29 * time.Second)
	w.list(4, w.Now)
	r := w.make()
	if len(r.Actions) > 0 || len(r.Holds) == 0 {
		t.Errorf("the source lists nothing since 29 s: %v", acted(r))
	}
}

// TestDisownAndPrepareAtOnce: two actions of one name.
func TestDisownAndPrepareAtOnce(t *testing.T) {
	w := newWorld(t)
	u := w.UUID("p")
	w.Memory.Tombstones = map[string]Tombstone{u: {UUID: u, Name: "p", Saved: true, At: t0}}
	r := w.make()
	if len(r.Actions) > 1 {
		t.Errorf("two actions at once: %v", acted(r))
	}
}

// TestPausedByAdmin: paused by an admin, and edited.
func TestPausedByAdmin(t *testing.T) {
	w, specs := proxiesWorld(t, 2)
	w.domain(specs[0], instanceOf(0), observe.PowerPaused)
	e := specs[0]
	e.Memory *= 2
	w.list(2, w.Now, e, specs[1])
	w.make()
	w.pass(61 * time.Second)
	if r := w.make(); len(r.Actions) > 0 {
		t.Errorf("what an admin paused: %v", acted(r))
	}
}

// TestRollOutAfterRestartGoesOnOverAFailure: right after a restart of the agent nobody was ready.
func TestRollOutAfterRestartGoesOnOverAFailure(t *testing.T) {
	w, specs := proxiesWorld(t, 4)
	w.make()
	w.restart()
	w.Observed.Probes = map[string]Probe{}
	sight := w.Observed.Sightings
	w.Observed.Sightings = map[string][]observe.Sighting{}
	e := append([]spec.Spec(nil), specs...)
	e[0].Memory *= 2
	e[1].Memory *= 2
	w.list(2, w.Now, e...)
	r := w.make()
	w.wantActed(r, "shutdown p0")
	w.Observed.Sightings = sight
	for i := 1; i < 4; i++ {
		w.serve(specs[i].Name, i)
	}
	w.domain(e[0], instanceOf(0), observe.PowerRunning)
	w.make()
	w.pass(10*time.Minute + time.Second)
	delete(w.Observed.Probes, "p0")
	w.make()
	r = w.make()
	if len(r.Actions) > 0 {
		t.Errorf("p0 was ready before the restart, did not come back, and yet: %v", acted(r))
	}
}

// TestLongDrainStopsTheRollOut: drain longer than the wait.
func TestLongDrainStopsTheRollOut(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	e := specs[0]
	e.Memory *= 2
	e.Drain = time.Hour
	w.list(2, w.Now, e, specs[1], specs[2])
	w.make()
	w.pass(11 * time.Minute)
	w.make()
	r := w.make()
	for _, c := range r.Host {
		if c.Type == "RollOut" && c.Status != "True" {
			t.Errorf("%+v", c)
		}
	}
}

// TestLeavingAndDoubt: leaving, then its source is in doubt.
func TestLeavingAndDoubt(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	for i := range specs {
		specs[i].Drain = time.Minute
	}
	w.list(2, w.Now, specs...)
	w.make()
	w.drop(1, specs)
	w.Desired.Sources[0].Synced = false
	r := w.make()
	if p := w.shown(r, "p0"); p.Leaving {
		t.Errorf("kept out of list by a source in doubt: %s", p.Next)
	}
}

// TestOldInitTreeError: InitTree failed once.
func TestOldInitTreeError(t *testing.T) {
	w := newWorld(t)
	w.Memory = w.Memory.Done(Action{Kind: InitTree}, errors.New("old error"), w.Now)
	w.Memory = w.Memory.Done(Action{Kind: InitTree}, nil, w.Now)
	w.make()
	w.Observed.Tree.Marker, w.Observed.Tree.Detail = observe.MarkerAbsent, "not mounted"
	r := w.make()
	for _, c := range r.Host {
		if c.Type == "ImageTree" && c.Message != "not mounted" {
			t.Errorf("%+v", c)
		}
	}
}

// TestResumeRetriesTheImage: resume does not retry the image.
func TestResumeRetriesTheImage(t *testing.T) {
	w := newWorld(t)
	delete(w.Observed.Tree.Bases, digest)
	r := w.make()
	w.Memory = w.Memory.Done(r.Actions[0], &observe.Error{Op: "x", Class: observe.Permanent, Err: errors.New("x")}, w.Now)
	r = w.make()
	w.obey(r, order.Order{Verb: order.Resume, Name: "p"})
	if r = w.make(); len(r.Actions) == 0 {
		t.Errorf("the image is not tried for %s", r.Wake.Sub(w.Now))
	}
}

// TestClockSetBack: the clock was ahead at the start.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t)
	s := w.spec("p")
	w.incarnate(s, inst)
	w.domain(s, inst, observe.PowerOff)
	w.make()
	p := w.Memory.Proxies["p"]
	w.Now = t0.Add(1000 * time.Hour) // the clock is ahead when the agent starts
	p.Starts = Starts{Last: w.Now.Add(-time.Minute), Short: 2}
	w.Memory.Proxies["p"] = p
	w.restart()
	w.Now = t0.Add(time.Hour) // and set right
	if r := w.make(); r.Wake.Sub(w.Now) > time.Minute {
		t.Errorf("next start in %s", r.Wake.Sub(w.Now))
	}
}

// TestWhatNeverWasIsNoDeletion: names that never had a VM count as deletions.
func TestWhatNeverWasIsNoDeletion(t *testing.T) {
	w, specs := proxiesWorld(t, 4)
	all := append(specs[:4:4], w.spec("x1"), w.spec("x2"), w.spec("x3"))
	w.list(2, w.Now, all...)
	w.make()
	w.list(3, w.Now, specs[1:]...) // p0 and the three that never were made
	w.make()
	w.pass(40e9)
	w.list(4, w.Now, specs[1:]...)
	if r := w.make(); len(r.Holds) > 0 {
		t.Errorf("one VM of four goes: %v", r.Holds[0].Message)
	}
}

// TestAdoptIsNotForgotten: an adoption that came to nothing counts for ever.
func TestAdoptIsNotForgotten(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	d := w.Observed.Domains[w.UUID("p0")]
	o := d.Owner
	d.Owner = nil
	w.Observed.Domains[d.UUID] = d
	r := w.make()
	w.obey(r, order.Order{Verb: order.Adopt, Name: "p0"})
	w.make()
	delete(w.Observed.Domains, d.UUID) // and the admin removes it after all
	w.make()
	w.make()
	d.Owner = nil
	w.Observed.Domains[d.UUID] = d
	w.pass(3600e9)
	if r := w.make(); len(r.Actions) > 0 {
		t.Errorf("nobody ordered that: %v", acted(r))
	}
	_, _ = o, specs
	_ = observe.PowerOff
}
