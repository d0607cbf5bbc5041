package hostagent

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// buriedOnly has p, whose spec went away with skip_cleanup set, right after a
// crash that let the tombstone get to disk and nothing else.
func buriedOnly(t *testing.T) *farm {
	t.Helper()
	f := up(t)
	sp := f.specs["p"]
	sp.SkipCleanup = true
	f.specs["p"] = sp
	f.step(f.read())
	f.pass(time.Minute)
	delete(f.specs, "p")
	uuid := f.proxy("p").UUID
	body, err := json.Marshal(plan.Tombstone{UUID: uuid, Name: "p", At: f.now, Why: "its spec went away"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Save(state.Change{Entry: state.Entry{Kind: state.Tombstone, Key: uuid, Body: body}}); err != nil {
		t.Fatal(err)
	}
	f.took()
	return f
}

func (f *farm) stored(kind state.Kind) (keys []string) {
	for _, e := range f.store.Content().Entries {
		if e.Kind == kind {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// What is remembered of a proxy that was abandoned must not be taken for the
// next VM of that name, and that be abandoned as well, although it never was.
func TestI05_ACrashAfterTheTombstoneBuriesOnce(t *testing.T) {
	f := buriedOnly(t)
	next := domxml.DomainUUID(testHost, domxml.Identity("p", 1))
	f.boot()
	f.through(&blindSpot{
		Fake: f.hv, hidden: map[string]bool{next: true}, asked: map[string]int{},
		err: &observe.Error{Op: "look up domain", Class: observe.Transient, Err: errors.New("no answer")},
	})
	f.pass(5 * time.Minute)
	if got := f.stored(state.Tombstone); len(got) != 1 {
		t.Errorf("tombstones of %v", got)
	}
	if got := append(f.stored(state.Proxy), f.stored(state.Spec)...); len(got) != 0 {
		t.Errorf("still kept: %v", got)
	}
}

// Whoever died before the claim was off takes it off after the restart, once
// the domain was seen.
func TestI05_TheClaimComesOffAfterARestart(t *testing.T) {
	f := buriedOnly(t)
	uuid := domxml.DomainUUID(testHost, "p")
	f.boot()
	f.pass(time.Minute)
	if d, ok := f.hv.Domain(uuid); !ok || d.Power != observe.PowerRunning || d.Metadata != "" {
		t.Errorf("%+v", d)
	}
	if rec := f.tree.incs["p"][0].Record; !rec.Abandoned {
		t.Errorf("%+v", rec)
	}
}

// A look at the tree may find the garbage gone before the action ends that
// removes it.
func TestCollectEndsAfterNothingIsLeft(t *testing.T) {
	f := up(t)
	f.agent.core.set.Images = map[string]spec.Image{"d": {SHA256: digest}} // the base in use is no garbage
	f.tree.bases["old"] = observe.Base{SHA256: "old", Path: "/tree/base/old.qcow2", Format: "qcow2"}
	f.pass(2 * time.Minute)      // it is seen
	f.now = f.now.Add(time.Hour) // the grace
	f.step(Tick{})
	i := slices.IndexFunc(f.queue, func(ef Effect) bool {
		a, ok := ef.(RunAction)
		return ok && a.Action.Kind == plan.Collect
	})
	if i < 0 {
		t.Fatalf("nothing is collected: %+v", f.queue)
	}
	collect := f.queue[i].(RunAction)
	f.queue = slices.Delete(f.queue, i, i+1)
	delete(f.tree.bases, "old")
	f.settle()
	f.step(ActionDone{Action: collect.Action})
	f.pass(time.Minute)
	f.wantReady("p")
}
