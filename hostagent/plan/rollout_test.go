package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// grow edits the specs of all: each has to restart with more memory.
func grow(specs []spec.Spec) []spec.Spec {
	out := append([]spec.Spec(nil), specs...)
	for i := range out {
		out[i].Memory *= 2
	}
	return out
}

func (w *world) wantActed(r Result, want ...string) {
	w.t.Helper()
	if d := cmp.Diff(want, acted(r)); d != "" {
		w.t.Errorf("actions (-want +got):\n%s", d)
	}
}

func TestRollOutTakesOneAtATime(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	edited := grow(specs)
	w.list(2, w.Now, edited...)
	r := w.make()
	w.wantActed(r, "shutdown p0")
	w.wantCondition(r, "p1", status.Synced, status.False, "RollOutWaiting")
	w.wantHost(r, status.RollOut, status.True, "UnderWay")

	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	w.wantActed(w.make(), "define p0")
	w.domain(edited[0], instanceOf(0), observe.PowerOff)
	w.wantActed(w.make(), "start p0")
	delete(w.Observed.Probes, "p0")
	w.domain(edited[0], instanceOf(0), observe.PowerRunning)
	w.restart() // the budget outlasts it
	w.wantActed(w.make())
	w.serve("p0", 0)
	r = w.make()
	if w.wantActed(r); r.Wake.After(w.Now) {
		t.Error("the next one's turn is not taken at once")
	}
	w.wantActed(w.make(), "shutdown p1")
}

func TestRollOutStopsAtOneThatDoesNotComeBack(t *testing.T) {
	failing := func(t *testing.T) (*world, []spec.Spec, []spec.Spec) {
		w, specs := proxiesWorld(t, 3)
		edited := grow(specs)
		w.list(2, w.Now, edited...)
		w.make()
		delete(w.Observed.Probes, "p0")
		w.domain(edited[0], instanceOf(0), observe.PowerRunning)
		w.make()
		w.pass(10*time.Minute + time.Second)
		w.make()
		w.restart()
		r := w.make()
		w.wantActed(r)
		w.wantHost(r, status.RollOut, status.False, "Stopped")
		w.wantCondition(r, "p1", status.Synced, status.False, "RollOutStopped")
		if c, _ := w.shown(r, "p1").Condition(status.Synced); !strings.Contains(c.Message, "resume p0") {
			t.Errorf("the message does not say what to do: %s", c.Message)
		}
		return w, specs, edited
	}
	t.Run("until an operator resumes it", func(t *testing.T) {
		w, _, _ := failing(t)
		w.obey(w.make(), order.Order{Verb: order.Resume, Name: "p0"})
		w.wantActed(w.make(), "shutdown p1")
	})
	t.Run("until it comes back", func(t *testing.T) {
		w, _, _ := failing(t)
		w.serve("p0", 0)
		w.make()
		w.wantActed(w.make(), "shutdown p1")
	})
	t.Run("until its spec changes, which goes first", func(t *testing.T) {
		w, _, edited := failing(t)
		again := append([]spec.Spec(nil), edited...)
		again[0].Memory *= 2
		w.list(3, w.Now, again...)
		w.wantActed(w.make(), "shutdown p0")
	})
	t.Run("until it is gone", func(t *testing.T) {
		w, _, edited := failing(t)
		w.list(3, w.Now, edited[1:]...)
		w.wantActed(w.make(), "shutdown p1")
	})
	t.Run("one that was not ready before tells nothing", func(t *testing.T) {
		w, specs := proxiesWorld(t, 2)
		delete(w.Observed.Probes, "p0")
		m := w.Memory.Proxies["p0"]
		m.WasReady = false
		w.Memory.Proxies["p0"] = m
		edited := grow(specs)
		w.list(2, w.Now, edited...)
		w.wantActed(w.make(), "shutdown p0")
		w.domain(edited[0], instanceOf(0), observe.PowerRunning)
		w.make()
		w.pass(10*time.Minute + time.Second)
		w.make()
		w.wantActed(w.make(), "shutdown p1")
	})
}

func TestRollOutRepairsWhatIsDownWithoutAsking(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	edited := grow(specs)
	w.list(2, w.Now, edited...)
	w.make()
	w.domain(specs[2], instanceOf(2), observe.PowerOff) // by itself
	w.wantActed(w.make(), "define p2")
}

// TestCase066_ARefusedDefinitionBringsTheOldGuestBack: what libvirt will not
// take costs one stop, and then the guest runs on as it was.
func TestCase066_ARefusedDefinitionBringsTheOldGuestBack(t *testing.T) {
	w, specs := proxiesWorld(t, 2)
	edited := grow(specs)
	w.list(2, w.Now, edited...)
	w.make()
	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	r := w.make()
	w.wantActed(r, "define p0")
	w.Memory = w.Memory.Done(r.Actions[0], &observe.Error{Op: "define", Class: observe.Permanent, Err: errFake}, w.Now)
	r = w.make()
	w.wantActed(r, "start p0")
	w.wantCondition(r, "p0", status.Synced, status.False, "ActionRefused")
	w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	w.restart()
	r = w.make()
	w.wantActed(r)
	w.wantHost(r, status.RollOut, status.False, "Stopped")
}

func TestNoCapacity(t *testing.T) {
	t.Run("memory for one more", func(t *testing.T) {
		w := newWorld(t)
		w.Policy.MemoryReserve = 256 << 20
		w.Observed.Memory = HostMemory{Available: 700 << 20, At: w.Now}
		s := w.spec("p")
		w.incarnate(s, inst)
		w.domain(s, inst, observe.PowerOff)
		r := w.make()
		w.wantKinds(r)
		w.wantCondition(r, "p", status.Synced, status.False, "NoCapacity")
		if !r.Recheck {
			t.Error("nobody looks whether there is room by now")
		}
		w.Observed.Memory.Available = 768 << 20
		w.wantKinds(w.make(), Start)
	})
	t.Run("what has just started counts", func(t *testing.T) {
		w := newWorld(t)
		a, b := w.spec("a"), w.spec("b")
		w.list(2, w.Now, a, b)
		for i, s := range []spec.Spec{a, b} {
			w.incarnate(s, instanceOf(i))
			w.domain(s, instanceOf(i), observe.PowerOff)
		}
		w.Observed.Memory = HostMemory{Available: 1000 << 20, At: w.Now}
		r := w.make()
		w.wantActed(r, "start a")
		w.Memory = w.Memory.Done(r.Actions[0], nil, w.Now)
		w.domain(a, instanceOf(0), observe.PowerRunning)
		w.Now = w.Now.Add(10 * time.Second)
		w.wantCondition(w.make(), "b", status.Synced, status.False, "NoCapacity")
	})
	t.Run("one that ran before is started", func(t *testing.T) {
		w := settledWorld(t)
		w.Memory.Proxies = map[string]Proxy{"p": {Kept: Kept{Begun: 1}}}
		w.Observed.Memory = HostMemory{Available: 1, At: w.Now}
		w.domain(w.spec("p"), inst, observe.PowerOff)
		w.wantKinds(w.make(), Start)
	})
	t.Run("one that runs is not taken down to grow", func(t *testing.T) {
		w, specs := proxiesWorld(t, 1)
		m := w.Memory.Proxies["p0"]
		m.Memory = specs[0].Memory
		w.Memory.Proxies["p0"] = m
		w.Observed.Memory = HostMemory{Available: 100 << 20, At: w.Now}
		w.list(2, w.Now, grow(specs)...)
		r := w.make()
		w.wantKinds(r)
		w.wantCondition(r, "p0", status.Synced, status.False, "NoCapacity")
	})
	t.Run("disk", func(t *testing.T) {
		w := newWorld(t)
		w.Observed.Tree.Free = 1<<30 - 1
		r := w.make()
		w.wantKinds(r)
		w.wantCondition(r, "p", status.Synced, status.False, "NoCapacity")
	})
}

func TestStartsAreStaggered(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	w.Policy.StartInterval = 2 * time.Second
	for i, s := range specs {
		w.domain(s, instanceOf(i), observe.PowerOff)
	}
	w.wantActed(w.make(), "start p0")
	r := w.make()
	if w.wantActed(r); !r.Wake.Equal(w.Now.Add(2 * time.Second)) {
		t.Errorf("the next start at %s", r.Wake)
	}
	w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	w.pass(2 * time.Second)
	w.wantActed(w.make(), "start p1")
}

func TestPowerOff(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	off := specs[0]
	off.Off = true
	w.list(2, w.Now, off)
	w.wantActed(w.make(), "shutdown p0")
	d := w.domain(off, instanceOf(0), observe.PowerOff)
	r := w.make()
	w.wantActed(r, "autostart p0")
	if r.Actions[0].On {
		t.Error("it would start with the host")
	}
	d.Autostart = false
	w.Observed.Domains[d.UUID] = d
	r = w.make()
	w.wantActed(r)
	if p := w.shown(r, "p0"); p.Phase != status.PhaseOff {
		t.Errorf("phase %s", p.Phase)
	}
	w.list(3, w.Now, specs[0])
	w.wantActed(w.make(), "start p0")
}

func TestOnChangeHold(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	edited := specs[0]
	edited.Hold, edited.UserData = true, spec.Secret("other")
	w.list(2, w.Now, edited)
	r := w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.False, "ChangePending")
	t.Run("what goes off is started as it was", func(t *testing.T) {
		w.domain(specs[0], instanceOf(0), observe.PowerOff)
		w.wantActed(w.make(), "start p0")
		w.domain(specs[0], instanceOf(0), observe.PowerRunning)
		w.make()
	})
	t.Run("until an operator wants it anew", func(t *testing.T) {
		w.obey(w.make(), order.Order{Verb: order.Recreate, Name: "p0"})
		w.wantActed(w.make(), "prepare p0")
	})
	t.Run("its domain undefined: nothing is made of another spec", func(t *testing.T) {
		w, specs := proxiesWorld(t, 1)
		edited := specs[0]
		edited.Hold, edited.UserData = true, spec.Secret("other")
		w.list(2, w.Now, edited)
		delete(w.Observed.Domains, domxml.DomainUUID(host, "p0"))
		w.wantActed(w.make())
	})
	t.Run("a new one is made", func(t *testing.T) {
		w := newWorld(t)
		s := w.spec("p")
		s.Hold = true
		w.list(2, w.Now, s)
		w.wantKinds(w.make(), Prepare)
	})
}

func TestDrain(t *testing.T) {
	draining := func(t *testing.T) (*world, []spec.Spec) {
		w, specs := proxiesWorld(t, 2)
		specs[0].Drain = 20 * time.Second
		w.list(2, w.Now, specs...)
		w.make()
		return w, specs
	}
	check := func(t *testing.T, w *world, r Result) {
		t.Helper()
		w.wantActed(r)
		w.wantCondition(r, "p0", status.Synced, status.False, "Draining")
		if !w.shown(r, "p0").Leaving {
			t.Error("it is not out of the lists")
		}
		w.pass(21 * time.Second)
		w.wantActed(w.make(), "shutdown p0")
	}
	t.Run("deletion", func(t *testing.T) {
		w, specs := draining(t)
		check(t, w, w.drop(1, specs))
	})
	t.Run("change", func(t *testing.T) {
		w, specs := draining(t)
		w.list(3, w.Now, grow(specs)[0], specs[1])
		check(t, w, w.make())
	})
	t.Run("power off", func(t *testing.T) {
		w, specs := draining(t)
		specs[0].Off = true
		w.list(3, w.Now, specs...)
		check(t, w, w.make())
	})
	t.Run("a change taken back ends it", func(t *testing.T) {
		w, specs := draining(t)
		w.list(3, w.Now, grow(specs)[0], specs[1])
		w.make()
		w.list(4, w.Now, specs...)
		if w.shown(w.make(), "p0").Leaving {
			t.Error("it is still leaving")
		}
	})
}
