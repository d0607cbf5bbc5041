package hostagent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// edit lets the source read p's spec with another first NIC.
func (f *farm) edit(change func(*spec.NIC)) spec.Spec {
	s := f.specs["p"]
	n := s.Networks[0]
	change(&n)
	s.Networks = []spec.NIC{n}
	f.specs["p"] = s
	f.step(f.read())
	return s
}

// TestBandwidthChangesUnderARunningGuest: one step, whatever fails on the way,
// and clients notice nothing.
func TestBandwidthChangesUnderARunningGuest(t *testing.T) {
	f := up(t)
	before := f.proxy("p")
	refused := &observe.Error{Op: "set bandwidth", Object: "p", Class: observe.Transient, Err: errors.New("tc does not answer")}
	f.hv.Fail("SetBandwidth", 2, refused)
	f.edit(func(n *spec.NIC) { n.Outbound = 1000 })
	f.settle()
	f.wantSynced("p", status.False, "Retrying")
	f.pass(time.Minute)
	f.wantTook("tune p", "tune p", "tune p")
	xml, runs := f.hv.AdminXML(before.UUID)
	if !runs || !strings.Contains(xml, `<outbound average="1">`) {
		t.Errorf("runs %t on %s", runs, xml)
	}
	if now := f.wantReady("p"); now.Instance != before.Instance || now.Starts != before.Starts {
		t.Errorf("%+v, was %+v", now, before)
	}
	f.pass(time.Hour)
	f.wantTook()
}

// TestAHalfTunedDomainIsPutBack: the edit is taken back after a try that set the
// limits and was not heard of.
func TestAHalfTunedDomainIsPutBack(t *testing.T) {
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.FailAfter("SetBandwidth", 1, errors.New("lost"))
	f.edit(func(n *spec.NIC) { n.Inbound = 5000 })
	f.settle()
	f.edit(func(n *spec.NIC) { n.Inbound = 0 })
	f.pass(time.Minute)
	if xml, _ := f.hv.AdminXML(uuid); strings.Contains(xml, "bandwidth") {
		t.Errorf("it is still limited: %s", xml)
	}
	f.wantReady("p")
	f.wantTook("tune p", "tune p")
}

// TestTheDryRunNamesATune and does nothing.
func TestTheDryRunNamesATune(t *testing.T) {
	f := up(t)
	f.edit(func(n *spec.NIC) { n.Outbound = 1000 })
	before := f.hv.String()
	actions, _, err := DryRun(t.Context(), f.parts(), []source.Snapshot{f.read().Snapshot})
	if err != nil || len(actions) != 1 || actions[0].Kind != "tune" || actions[0].Reason == "" {
		t.Errorf("%+v, %v", actions, err)
	}
	if f.hv.String() != before {
		t.Error("the dry run changed something")
	}
}

// TestADirectNICIsNotProbed: its proxy is Ready by what can be seen.
func TestADirectNICIsNotProbed(t *testing.T) {
	f := newFarm(t)
	f.probeOK = false
	s := f.spec("p", "#cloud-config\n")
	s.Networks = []spec.NIC{{Network: spec.Network{Direct: "eth1"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")}}}
	f.specs["p"] = s
	f.step(f.read())
	f.pass(30 * time.Second)
	uuid := f.proxy("p").UUID
	f.hv.SetClaims(uuid, observe.FromAgent, observe.Claim{
		MAC: domxml.MAC(testHost, "p", 0), Addr: netip.MustParseAddr("192.0.2.10"), Source: observe.FromAgent,
	})
	f.hv.SetAgent(uuid, true)
	f.pass(5 * time.Minute)
	if c, _ := f.wantReady("p").Condition(status.Reachable); c.Status != status.Unknown || c.Reason != status.NoWayFromHost {
		t.Errorf("%+v", c)
	}
	if len(f.agent.core.obs.Probes) > 0 {
		t.Error("it was probed")
	}
}
