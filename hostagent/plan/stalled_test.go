package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// stalledWorld is a settled one whose domain libvirt has paused.
func stalledWorld(t *testing.T, byLibvirt bool, free uint64) *world {
	w := settledWorld(t)
	d := w.domain(w.spec("p"), inst, observe.PowerPaused)
	d.Stalled = byLibvirt
	w.Observed.Domains[d.UUID] = d
	w.Observed.Tree.Free = free
	return w
}

func TestCase070OutOfSpaceIsReportedAndResumed(t *testing.T) {
	t.Parallel()
	w := stalledWorld(t, true, 12<<20)
	r := w.make()
	w.wantKinds(r)
	w.wantCondition(r, "p", status.Running, status.False, "PausedNoSpace")
	c, _ := r.Proxies[0].Condition(status.Running)
	for _, word := range []string{"failed a write", "/tree", "12 MiB free", "1GiB", "limits.disk_reserve"} {
		if !strings.Contains(c.Message, word) {
			t.Errorf("message %q lacks %q", c.Message, word)
		}
	}
	if !r.Recheck {
		t.Error("nobody looks whether there is room again")
	}
	w.Observed.Tree.Free = 2 << 30
	r = w.make()
	w.wantKinds(r, Resume)
	if r.Recheck {
		t.Error("there is room, and still it is looked for")
	}
	w.Memory = r.Memory.Done(r.Actions[0], nil, w.Now)

	// It is paused again and again: each time later, and never destroyed.
	for _, least := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second} {
		r = w.make()
		w.wantKinds(r)
		if wait := r.Wake.Sub(w.Now); wait < least {
			t.Errorf("resumed again after %s, want at least %s", wait, least)
		}
		w.Now = r.Wake
		r = w.make()
		w.wantKinds(r, Resume)
		w.Memory = r.Memory.Done(r.Actions[0], nil, w.Now)
	}
}

func TestAnAdminsPauseIsLeft(t *testing.T) {
	t.Parallel()
	w := stalledWorld(t, false, roomyTree)
	r := w.make()
	w.wantKinds(r)
	w.wantCondition(r, "p", status.Running, status.False, "Paused")
}

const roomyTree = 100 << 30

func TestAnIOErrorIsResumedToo(t *testing.T) {
	t.Parallel()
	w := stalledWorld(t, true, roomyTree)
	r := w.make()
	w.wantKinds(r, Resume)
	w.wantCondition(r, "p", status.Running, status.False, "PausedIOError")
}

func TestADegradedLinkIsSaidAndNothingStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Observed.Libvirt.Degraded = "libvirt answers none of 3 guest-agent calls"
	r := w.make()
	w.wantKinds(r, Prepare)
	for _, c := range r.Host {
		if c.Type != status.LibvirtConnected {
			continue
		}
		if c.Status != status.False || c.Reason != "LibvirtDegraded" || !strings.Contains(c.Message, "none of 3 guest-agent calls") {
			t.Errorf("%+v", c)
		}
	}
}

// A spec that can not be followed yet is no reason to stay paused.
func TestAStalledDomainGoesOnWhateverItsSpec(t *testing.T) {
	t.Parallel()
	w := stalledWorld(t, true, roomyTree)
	next := w.spec("p")
	next.Image.SHA256 = "bbbb"
	w.list(2, w.Now, next)
	w.wantKinds(w.make(), Resume, FetchImage)

	w = stalledWorld(t, true, roomyTree)
	w.Desired = source.Merge(source.Snapshot{Origin: source.OriginDir, Seq: 2, Read: w.Now, Synced: true,
		Entries: map[string]source.Entry{"p": {Name: "p", Problems: []string{"broken"}}}})
	r := w.make()
	w.wantKinds(r, Resume)
	w.wantCondition(r, "p", status.Synced, status.False, "SpecInvalid")

	w.Observed.Tree.Marker = observe.MarkerAbsent
	w.wantKinds(w.make())
}

// Each goes on with what is free after the one before.
func TestStalledDomainsGoOnOneAtATime(t *testing.T) {
	t.Parallel()
	w := stalledWorld(t, true, roomyTree)
	other := w.spec("q")
	w.incarnate(other, inst2)
	d := w.domain(other, inst2, observe.PowerPaused)
	d.Stalled = true
	w.Observed.Domains[d.UUID] = d
	w.list(2, w.Now, w.spec("p"), other)
	w.wantKinds(w.make(), Resume)
	w.Observed.Busy = map[string]Kind{"p": Resume}
	w.wantKinds(w.make())
	w.Observed.Busy, w.Observed.Measuring = nil, true
	w.wantKinds(w.make())
}

// Two steps of one proxy that take turns do not forget each other's failures.
func TestI15_TwoFailingStepsBothBackOff(t *testing.T) {
	t.Parallel()
	for what, power := range map[string]observe.Power{"resume": observe.PowerPaused, "start": observe.PowerOff} {
		w := stalledWorld(t, true, roomyTree)
		d := w.domain(w.spec("p"), inst, power)
		d.Stalled = power == observe.PowerPaused
		w.Observed.Domains[d.UUID] = d
		next := w.spec("p")
		next.UserData = spec.Secret("#cloud-config\n# other\n")
		w.list(9, w.Now, next)
		failed := 0
		for failed < 100 {
			r := w.make()
			if len(r.Actions) == 0 {
				break
			}
			w.Memory = r.Memory.Done(r.Actions[0], errors.New("boom"), w.Now)
			failed++
		}
		if failed != 2 {
			t.Errorf("%s: %d failing actions at one moment, want one of each kind", what, failed)
		}
	}
}
