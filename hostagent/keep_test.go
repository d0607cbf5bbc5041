package hostagent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// order gives an order and lets it be answered.
func (f *farm) order(o order.Order) Answered {
	f.t.Helper()
	f.answers = nil
	f.step(Ordered{ID: 7, Order: o})
	f.settle()
	if len(f.answers) != 1 || f.answers[0].ID != 7 {
		f.t.Fatalf("%s: answers %+v", o, f.answers)
	}
	return f.answers[0]
}

func TestAnOrderIsAnsweredWhenItIsOnDisk(t *testing.T) {
	f := up(t)
	f.lateSaves = true
	f.step(Ordered{ID: 1, Order: order.Order{Verb: order.Pause, Name: "p"}})
	var save Effect
	for _, ef := range f.queue {
		switch ef.(type) {
		case Answered:
			t.Fatal("answered before it is on disk")
		case SaveState:
			save = ef
		}
	}
	f.queue = nil
	f.run(save)
	f.settle()
	if len(f.answers) != 1 || f.answers[0].Err != nil {
		t.Fatalf("%+v", f.answers)
	}
	f.boot()
	f.hv.AdminDestroy(f.proxy("p").UUID)
	f.pass(2 * time.Minute)
	if p := f.proxy("p"); p.Phase != status.PhasePaused {
		t.Errorf("after a restart: %s", p.Phase)
	}
	if got := f.took(); len(got) != 0 {
		t.Errorf("hands on a paused proxy: %v", got)
	}
}

func TestAnOrderThatCanNotBeKeptSaysSo(t *testing.T) {
	f := up(t)
	full := true
	f.store.Fail = func(state.Change) error {
		if full {
			return errors.New("disk full")
		}
		return nil
	}
	a := f.order(order.Order{Verb: order.Pause, Name: "p"})
	if a.Err == nil || !strings.Contains(a.Err.Error(), "disk full") {
		t.Fatalf("%+v", a)
	}
	if p := f.proxy("p"); p.Phase != status.PhasePaused {
		t.Errorf("it does not count meanwhile: %s", p.Phase)
	}
	full = false
	f.pass(2 * time.Minute)
	f.boot()
	if p := f.proxy("p"); p.Phase != status.PhasePaused && p.Phase != status.PhaseUnknown {
		t.Errorf("it was not written down later: %s", p.Phase)
	}
	if a := f.order(order.Order{Verb: order.Delete, Name: "p"}); a.Err == nil {
		t.Error("a listed proxy was deleted")
	}
}

// TestI10_WhatIsKeptIsReadBack: after a restart there is nothing to write.
func TestI10_WhatIsKeptIsReadBack(t *testing.T) {
	f := up(t)
	f.order(order.Order{Verb: order.Pause, Name: "p"})
	f.put("q", "x")
	f.pass(time.Minute)
	f.order(order.Order{Verb: order.Abandon, Name: "q"})
	f.pass(time.Minute)
	before := f.agent.core.memory
	kept := Restore(f.store.Content(), f.now, func(e state.Entry, err error) { t.Errorf("%s %s: %v", e.Kind, e.Key, err) })
	if d := cmp.Diff(before.KeptHost, kept.Memory.KeptHost); d != "" {
		t.Errorf("host (-was +read):\n%s", d)
	}
	if d := cmp.Diff(before.Tombstones, kept.Memory.Tombstones); d != "" {
		t.Errorf("tombstones (-was +read):\n%s", d)
	}
	for name, p := range before.Proxies {
		got := kept.Memory.Proxies[name]
		if d := cmp.Diff(p.Kept, got.Kept); d != "" {
			t.Errorf("%s (-was +read):\n%s", name, d)
		}
		if got.Last == nil || got.Last.Hash() != p.Last.Hash() || string(got.Last.UserData) != string(p.Last.UserData) {
			t.Errorf("%s: its spec is another", name)
		}
	}
	writes := 0
	f.store.Fail = func(state.Change) error { writes++; return nil }
	f.boot()
	f.pass(10 * time.Minute)
	if writes != 0 {
		t.Errorf("a restart wrote %d entries", writes)
	}
}

func TestCase153_LostEntriesForbid(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.order(order.Order{Verb: order.Abandon, Name: "p"})
	f.pass(time.Minute)
	content := f.store.Content()
	for i, e := range content.Entries {
		if e.Kind == state.Tombstone || e.Kind == state.Host {
			content.Entries[i].Body = json.RawMessage(`{"what":"ever"}`)
		}
	}
	rejected := 0
	kept := Restore(content, f.now, func(state.Entry, error) { rejected++ })
	if rejected != 2 {
		t.Fatalf("%d entries rejected", rejected)
	}
	if _, buried := kept.Memory.Tombstones[uuid]; !buried {
		t.Error("a VM that was abandoned is not any more")
	}
	if !kept.Memory.TreeKnown {
		t.Error("an image tree that was known is not any more")
	}
	c := NewCore(f.agent.p.Settings, kept)
	d := c.keeper.diff(c.memory, func(string) string { return "" })
	written := map[state.Kind]bool{}
	for _, ch := range d.changes {
		written[ch.Kind] = true
	}
	if !written[state.Tombstone] {
		t.Error("the tombstone that was lost is not written again")
	}
}

// TestI05_TombstoneFirst: the VM is not touched before its tombstone is on disk.
func TestI05_TombstoneFirst(t *testing.T) {
	f := up(t)
	f.store.Fail = func(c state.Change) error {
		if c.Kind == state.Tombstone {
			return errors.New("disk full")
		}
		return nil
	}
	changes := len(f.hv.Changes())
	f.step(Ordered{ID: 1, Order: order.Order{Verb: order.Abandon, Name: "p"}})
	f.pass(10 * time.Minute)
	if got := f.hv.Changes()[changes:]; len(got) != 0 {
		t.Errorf("%v", got)
	}
	f.store.Fail = nil
	f.pass(10 * time.Minute)
	if got := f.hv.Changes()[changes:]; len(got) != 1 || !strings.HasPrefix(got[0], "SetMetadata ") {
		t.Errorf("%v", got)
	}
	if p := f.proxy("p"); p.Phase != status.PhaseBlocked {
		t.Errorf("%+v", p)
	}
}

func TestAdoptAllMakesTheAgentStartAnew(t *testing.T) {
	f := up(t)
	f.agent.p.Settings.Policy.HostID = "host-new"
	f.tree.marker, f.tree.host = observe.MarkerForeign, testHost
	f.agent = New(f.agent.p)
	f.step(Hint{observe.Event{Kind: observe.Connected}}, f.read())
	f.pass(time.Minute)
	if got := f.took(); len(got) != 0 {
		t.Errorf("with another host id: %v", got)
	}
	a := f.order(order.Order{Verb: order.Adopt, All: true})
	if a.Err != nil || !f.agent.rewire {
		t.Fatalf("%+v, anew: %t", a, f.agent.rewire)
	}
	kept := Restore(f.store.Content(), f.now, func(state.Entry, error) {})
	if kept.Memory.HostID != testHost {
		t.Errorf("kept %q", kept.Memory.HostID)
	}
	f.tree.marker = observe.MarkerOK
	f.boot()
	f.pass(time.Minute)
	f.wantReady("p")
	if got := f.took(); len(got) != 0 {
		t.Errorf("after it: %v", got)
	}
}
