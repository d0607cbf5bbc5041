package plan

import (
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

func TestI06_MassDeletionIsHeld(t *testing.T) {
	for _, c := range []struct {
		name      string
		all, gone int
		held      bool
	}{
		{"one of one", 1, 1, false},
		{"one of two", 2, 1, false},
		{"both", 2, 2, true},
		{"half", 4, 2, false},
		{"more than half", 4, 3, true},
		{"all", 5, 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, specs := proxiesWorld(t, c.all)
			r := w.drop(c.gone, specs)
			if c.held {
				w.wantKinds(r)
				w.wantCondition(r, "p0", status.Synced, status.False, "Held")
				w.wantHost(r, status.NothingHeld, status.False, "MassDeletion")
			} else if len(r.Actions) != c.gone {
				t.Errorf("actions %v", acted(r))
			}
		})
	}
}

func TestI06_ReleaseLetsExactlyTheShownSetGo(t *testing.T) {
	w, specs := proxiesWorld(t, 5)
	r := w.drop(3, specs)
	shown := r.Holds[0]
	if d := cmp.Diff([]string{"p0", "p1", "p2"}, shown.Proxies); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	if !strings.Contains(shown.Message, "release "+shown.Digest) {
		t.Errorf("the message does not say what to do: %s", shown.Message)
	}
	w.refuse(r, order.Order{Verb: order.Release, Digest: "0123456789ab"})

	t.Run("another set has another digest", func(t *testing.T) {
		w.pass(time.Second)
		r := w.drop(4, specs)
		if r.Holds[0].Digest == shown.Digest || len(r.Holds[0].Proxies) != 4 {
			t.Fatalf("%+v", r.Holds)
		}
		w.refuse(r, order.Order{Verb: order.Release, Digest: shown.Digest})
	})
	t.Run("one that comes back is not held any more", func(t *testing.T) {
		w.list(20, w.Now, specs[3:]...)
		if r := w.make(); r.Holds[0].Digest != shown.Digest {
			t.Fatalf("%+v", r.Holds)
		}
	})
	t.Run("over a restart", func(t *testing.T) {
		w.restart()
		r = w.make()
		w.wantKinds(r)
		if len(r.Holds) != 1 || r.Holds[0].Digest != shown.Digest {
			t.Fatalf("%+v", r.Holds)
		}
	})
	w.obey(r, order.Order{Verb: order.Release, Digest: shown.Digest})
	w.restart()
	w.drop(3, specs)
	r = w.make()
	if len(r.Holds) != 0 {
		t.Errorf("still held: %+v", r.Holds)
	}
	w.wantHost(r, status.NothingHeld, status.True, "NothingHeld")
	if p := w.shown(r, "p0"); p.Phase != status.PhaseRemoving {
		t.Errorf("p0 is %s: %+v", p.Phase, p)
	}
	w.pass(time.Second)
	w.list(40, w.Now, specs[4:]...) // p3 was not in the set
	w.make()
	w.pass(40 * time.Second)
	w.list(41, w.Now, specs[4:]...)
	if p := w.shown(w.make(), "p4"); p.Phase != status.PhaseReady {
		t.Errorf("p4 is %s", p.Phase)
	}
}

// TestI06_DeletionsAddUp: one at a time is a mass too, within ten minutes, and
// what is held stays held when they are over.
func TestI06_DeletionsAddUp(t *testing.T) {
	w, specs := proxiesWorld(t, 4)
	gone := func(i int) {
		delete(w.Observed.Domains, domxml.DomainUUID(host, specs[i].Name))
		delete(w.Observed.Tree.Incarnations, specs[i].Name)
	}
	for i := range 2 {
		if r := w.drop(i+1, specs); len(r.Actions) == 0 {
			t.Fatalf("the removal of %s is held: %+v", specs[i].Name, r.Holds)
		}
		gone(i)
	}
	r := w.drop(3, specs)
	w.wantCondition(r, "p2", status.Synced, status.False, "Held")
	w.restart()
	w.pass(30 * time.Minute)
	w.list(30, w.Now, specs[3:]...)
	w.make()
	w.pass(time.Minute)
	w.list(31, w.Now, specs[3:]...)
	w.wantCondition(w.make(), "p2", status.Synced, status.False, "Held")
	if n := len(w.Memory.Removed); n != 0 {
		t.Errorf("%d removals are remembered for longer than they count", n)
	}
}

func TestI06_ASourceThatTurnsEmptyIsHeld(t *testing.T) {
	w, specs := proxiesWorld(t, 6)
	other := w.Desired.Sources[0] // lists what is left, as a second source
	other.Origin = "manifest"
	w.make()
	for name, p := range w.Memory.Proxies {
		if name >= "p2" {
			p.Origin = "manifest"
			w.Memory.Proxies[name] = p
		}
	}
	read := func(seq uint64) Result {
		w.list(seq, w.Now)
		second := other
		second.Seq, second.Read = seq, w.Now
		second.Entries = map[string]source.Entry{}
		for _, s := range specs[2:] {
			second.Entries[s.Name] = other.Entries[s.Name]
		}
		w.Desired = source.Merge(w.Desired.Sources[0], second)
		return w.make()
	}
	read(10)
	w.pass(time.Minute)
	r := read(11) // two of six: no mass, but all that the directory had
	for _, a := range r.Actions {
		if a.Kind != Record { // who comes from the manifest now
			t.Errorf("%s %s", a.Kind, a.Name)
		}
	}
	w.wantCondition(r, "p0", status.Synced, status.False, "Held")
	w.wantCondition(r, "p2", status.Synced, status.True, "InSync")
}

func TestI06_MassChangeForOthersReasonsIsHeld(t *testing.T) {
	edit := func(specs []spec.Spec, n int, own bool) []spec.Spec {
		out := append([]spec.Spec(nil), specs...)
		for i := range n {
			out[i].Own = specs[i].Hash().String()
			out[i].Memory *= 2
			if own {
				out[i].Own = ""
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		n    int
		own  bool
		held bool
	}{
		{"the config makes three of four grow", 3, false, true},
		{"the config makes two of four grow", 2, false, false},
		{"four specs were edited", 4, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, specs := proxiesWorld(t, 4)
			w.restart()
			w.list(2, w.Now, edit(specs, c.n, c.own)...)
			r := w.make()
			if !c.held {
				if d := cmp.Diff([]string{"shutdown p0"}, acted(r)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				return
			}
			w.wantKinds(r)
			w.wantCondition(r, "p0", status.Synced, status.False, "Held")
			w.wantHost(r, status.NothingHeld, status.False, "MassChange")
			w.restart()
			r = w.make()
			w.wantKinds(r)
			w.obey(r, order.Order{Verb: order.Release, Digest: r.Holds[0].Digest})
			w.restart()
			if d := cmp.Diff([]string{"shutdown p0"}, acted(w.make())); d != "" {
				t.Errorf("after the release (-want +got):\n%s", d)
			}
		})
	}
	t.Run("a held proxy that goes off is started as it was", func(t *testing.T) {
		w, specs := proxiesWorld(t, 4)
		w.list(2, w.Now, edit(specs, 4, false)...)
		w.make()
		w.domain(specs[0], instanceOf(0), observe.PowerOff)
		if d := cmp.Diff([]string{"start p0"}, acted(w.make())); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("an edit that is taken back releases", func(t *testing.T) {
		w, specs := proxiesWorld(t, 4)
		w.list(2, w.Now, edit(specs, 4, false)...)
		w.make()
		w.list(3, w.Now, specs...)
		r := w.make()
		w.wantKinds(r)
		if len(r.Holds) != 0 {
			t.Errorf("%+v", r.Holds)
		}
	})
}
