package plan

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestRecreateWaitsForASight: which guest is made anew is not guessed while the
// domain can not be seen: the latest incarnation may be one that was only
// prepared.
func TestRecreateWaitsForASight(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		w, specs := proxiesWorld(t, 1)
		w.incarnate(specs[0], inst2)
		delete(w.Observed.Domains, w.make().Proxies[0].UUID)
		if unsure {
			w.Observed.Unsure = map[string]string{w.make().Proxies[0].UUID: "no answer"}
		} else {
			w.Observed.Libvirt.Synced = false
		}
		w.refuse(w.make(), order.Order{Verb: order.Recreate, Name: "p0"})
	}
}

// TestDrainAfterAPause: a guest that was paused when it was to go has its whole
// drain when it is resumed, and is asked before it is forced.
func TestDrainAfterAPause(t *testing.T) {
	w, specs := proxiesWorld(t, 1)
	specs[0].Drain = time.Hour
	w.list(2, w.Now, specs...)
	w.obey(w.make(), order.Order{Verb: order.Recreate, Name: "p0"})
	w.incarnate(specs[0], inst2)
	w.domain(specs[0], instanceOf(0), observe.PowerPaused)
	w.make()
	w.domain(specs[0], instanceOf(0), observe.PowerRunning)
	w.pass(30 * time.Minute)
	r := w.make()
	w.wantActed(r)
	w.wantCondition(r, "p0", status.Synced, status.False, "Draining")
	w.pass(31 * time.Minute)
	w.wantActed(w.make(), "shutdown p0")
}

// TestRollOutWaitsForAShutdownUnderWay: a change that is taken back while its
// guest is being shut down does not make that guest count as up.
func TestRollOutWaitsForAShutdownUnderWay(t *testing.T) {
	w, specs := proxiesWorld(t, 3)
	edited := grow(specs)
	w.list(2, w.Now, edited[0], specs[1], specs[2])
	w.wantActed(w.make(), "shutdown p0")
	w.Observed.Busy = map[string]Kind{"p0": Shutdown}
	w.list(3, w.Now, specs[0], edited[1], specs[2])
	w.make()
	w.wantActed(w.make())
	w.Observed.Busy = nil
	w.make()
	w.wantActed(w.make(), "shutdown p1")
}
