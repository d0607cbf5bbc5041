package hostagent

import (
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// TestCase035_ItsOwnDomainIsFoundAgain: an agent that dies after the definition,
// before the start and before anything of it is on disk, finds the domain by its
// claim, starts it, and makes no second one.
func TestCase035_ItsOwnDomainIsFoundAgain(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.put("p", "#cloud-config\n")
	for defined := false; !defined; {
		ef, more := f.next()
		if !more {
			t.Fatal("it was never defined")
		}
		act, ok := ef.(RunAction)
		defined = ok && act.Action.Kind == "define"
		f.run(ef)
	}
	uuid := f.proxy("p").UUID
	if d, _ := f.hv.Domain(uuid); d.Power != observe.PowerOff {
		t.Fatalf("it is %s", d.Power)
	}
	f.took()
	f.store = state.NewMemory()
	f.boot()
	f.settle()
	if got := f.wantReady("p"); got.UUID != uuid {
		t.Errorf("UUID %s became %s", uuid, got.UUID)
	}
	f.wantTook("start p")
	if h := f.agent.core.Status(f.now); h.Managed != 1 || h.Foreign != 0 || len(f.tree.incs["p"]) != 1 {
		t.Errorf("%d domains, %d of others, %d incarnations", h.Managed, h.Foreign, len(f.tree.incs["p"]))
	}
}
