package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// limit gives the specs other bandwidth.
func limit(specs []spec.Spec, rate spec.Rate) []spec.Spec {
	var out []spec.Spec
	for _, s := range specs {
		s.Networks = []spec.NIC{{Network: nat, Outbound: rate}}
		out = append(out, s)
	}
	return out
}

// Nothing goes down, so all go at once, whatever max_unavailable says.
func TestBandwidthIsTunedWithoutATurn(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 3)
	limited := limit(specs, 1000)
	w.list(2, w.Now, limited...)
	r := w.make()
	w.wantActed(r, "tune p0", "tune p1", "tune p2")
	for i, a := range r.Actions {
		if a.Instance != instanceOf(i) || a.Hash != limited[i].Hash() || a.Spec.Networks[0].Outbound != 1000 {
			t.Errorf("action %+v", a)
		}
	}
	w.wantHost(r, status.RollOut, status.True, "NothingToDo")
	for i, s := range limited {
		w.domain(s, instanceOf(i), observe.PowerRunning)
		w.Observed.Tree.Incarnations[s.Name][0].Record.SpecHash = s.Hash().String()
	}
	w.wantActed(w.make())
}

func TestTune(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(w *world, was, s *spec.Spec)
		want   []string
		reason string
	}{
		{"plain", func(*world, *spec.Spec, *spec.Spec) {}, []string{"tune p0"}, "Updating"},
		{"with memory it goes the ordinary way", func(_ *world, _, s *spec.Spec) { s.Memory *= 2 }, []string{"shutdown p0"}, "Updating"},
		{"with another disk too", func(_ *world, _, s *spec.Spec) { s.Disk = 20 << 30 }, []string{"prepare p0"}, "Updating"},
		{"held by its spec", func(_ *world, _, s *spec.Spec) { s.Hold = true }, nil, "ChangePending"},
		{"paused by an operator", func(w *world, _, _ *spec.Spec) { w.Memory.PausedAll = true }, nil, "PausedByOperator"},
		{"of another hash version", func(w *world, was, _ *spec.Spec) {
			d := w.domain(*was, instanceOf(0), observe.PowerRunning)
			d.Owner.Spec.Version = 99
		}, nil, "Outdated"},
		{"while it is off, after it starts", func(w *world, was, _ *spec.Spec) {
			w.domain(*was, instanceOf(0), observe.PowerOff)
		}, []string{"start p0"}, "Updating"},
		{"while it is off for good", func(w *world, was, s *spec.Spec) {
			s.Off = true
			w.domain(*was, instanceOf(0), observe.PowerOff)
		}, []string{"tune p0"}, "Updating"},
		{"while an admin has it paused", func(w *world, was, _ *spec.Spec) {
			w.domain(*was, instanceOf(0), observe.PowerPaused)
		}, []string{"tune p0"}, "Updating"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, specs := proxiesWorld(t, 1)
			s := limit(specs, 1000)[0]
			c.change(w, &specs[0], &s)
			w.list(2, w.Now, s)
			r := w.make()
			if diff := cmp.Diff(c.want, acted(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got, _ := w.shown(r, "p0").Condition(status.Synced); got.Reason != c.reason {
				t.Errorf("Synced is %s (%s), want %s", got.Reason, got.Message, c.reason)
			}
		})
	}
}

// A mass of changes that nobody's own spec explains is held, these too.
func TestI06_MassTuningIsHeld(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 3)
	limited := limit(specs, 1000)
	for i := range limited {
		limited[i].Own = specs[i].Hash().String() // as the list named it: their documents say what they said
	}
	w.list(2, w.Now, limited...)
	r := w.make()
	w.wantActed(r)
	w.wantHost(r, status.NothingHeld, status.False, "MassChange")
}

// What libvirt refuses leaves the guest as it is, and what is off is started.
func TestAFailedTuneIsRetriedAndKeepsNothingOff(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 1)
	w.list(2, w.Now, limit(specs, 1000)...)
	r := w.make()
	w.Memory = r.Memory.Done(r.Actions[0], errors.New("tc says no"), w.Now)
	r = w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.False, "Retrying")
	if r.Wake.IsZero() || r.Wake.Sub(w.Now) > 2*time.Second {
		t.Errorf("wakes at %v", r.Wake)
	}
	w.domain(specs[0], instanceOf(0), observe.PowerOff)
	w.wantActed(w.make(), "start p0")
	w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	w.pass(2 * time.Second)
	w.wantActed(w.make(), "tune p0")
	refused := &observe.Error{Op: "set", Object: "x", Class: observe.Permanent, Err: errors.New("no such interface")}
	r = w.make()
	w.Memory = r.Memory.Done(r.Actions[0], refused, w.Now)
	w.pass(time.Hour)
	r = w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.False, "ActionRefused")
}

// A try that was cut off halfway is gone on with, though the spec is the old one
// again.
func TestATuneThatWasCutOffIsSeen(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 1)
	d := w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	d.Owner.Spec.Live = "anything"
	w.wantActed(w.make(), "tune p0")
}

// The record is written last: when the agent died before, it still is.
func TestTheRecordFollowsATune(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 1)
	s := limit(specs, 1000)[0]
	w.domain(s, instanceOf(0), observe.PowerRunning)
	w.list(2, w.Now, s)
	w.wantActed(w.make(), "record p0")
	d := w.domain(s, instanceOf(0), observe.PowerRunning)
	d.Owner.Spec.Version = 99 // which can not be compared: nothing is written over and over
	w.wantActed(w.make())
}

func TestADirectNICIsReadyWithoutAProbe(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 1)
	s, eth1 := specs[0], spec.Network{Direct: "eth1"}
	s.Networks = []spec.NIC{{Network: eth1}}
	w.Observed.Prefixes[eth1] = w.Observed.Prefixes[nat]
	w.domain(s, instanceOf(0), observe.PowerRunning)
	w.Observed.Tree.Incarnations["p0"][0].Record.SpecHash = s.Hash().String()
	w.list(2, w.Now, s)
	for _, answered := range []bool{true, false} { // what an earlier probe said is no matter
		pr := w.Observed.Probes["p0"]
		pr.OK = answered
		w.Observed.Probes["p0"] = pr
		r := w.make()
		w.wantCondition(r, "p0", status.Reachable, status.Unknown, status.NoWayFromHost)
		w.wantCondition(r, "p0", status.Ready, status.True, "Ready")
		if c, _ := w.shown(r, "p0").Condition(status.Reachable); !strings.Contains(c.Message, "eth1") {
			t.Errorf("message %q", c.Message)
		}
	}
}
