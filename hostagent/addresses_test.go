package hostagent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// onP gives claims of p's first interface.
func onP(addrs ...string) (out []observe.Claim) {
	for _, a := range addrs {
		out = append(out, observe.Claim{MAC: domxml.MAC(testHost, "p", 0), Addr: netip.MustParseAddr(a)})
	}
	return out
}

// quiet makes that no source knows an address of p.
func (f *farm) quiet() {
	for _, src := range observe.AddressSources {
		f.hv.SetClaims(f.proxy("p").UUID, src)
	}
}

// restartP takes p's power away and lets the agent start it again.
func (f *farm) restartP() {
	f.hv.AdminDestroy(f.proxy("p").UUID)
	f.settle()
	f.pass(time.Minute)
	f.took()
}

func (f *farm) wantAddresses(want ...string) {
	f.t.Helper()
	var got []string
	for _, a := range f.proxy("p").Addresses {
		got = append(got, a.Address.String()+" "+a.Source)
	}
	if d := cmp.Diff(want, got); d != "" {
		f.t.Errorf("addresses (-want +got):\n%s", d)
	}
}

func (f *farm) wantAddressed(want status.Truth, reason string) {
	f.t.Helper()
	if c, _ := f.proxy("p").Condition(status.Addressed); c.Status != want || c.Reason != reason {
		f.t.Errorf("%+v, want %s %s", c, want, reason)
	}
}

// TestCase038_AnAgentThatComesUpLate: nothing is done about it, and once it
// answers that is one change.
func TestCase038_AnAgentThatComesUpLate(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	f.restartP()
	f.hv.SetAgent(f.proxy("p").UUID, true)
	unresponsive := &observe.Error{Op: "read addresses of domain", Class: observe.Unavailable, Err: errors.New("libvirt error 86")}
	f.hv.Fail("Claims", 1000, unresponsive)
	for range 18 {
		f.pass(10 * time.Second)
		f.wantAddressed(status.False, "NoAddressYet")
	}
	f.hv.Fail("Claims", 0, nil)
	f.hv.SetClaims(f.proxy("p").UUID, observe.FromAgent, onP("192.168.122.50")...)
	changes := 0
	for range 60 {
		f.now = f.now.Add(time.Second)
		f.step(Tick{})
		for len(f.queue) > 0 {
			ef := f.queue[0]
			f.queue = f.queue[1:]
			f.run(ef)
			changes += f.addressedChanges()
		}
	}
	if changes != 1 {
		t.Errorf("told %d times of the address", changes)
	}
	f.wantAddresses("192.168.122.50 agent")
	f.wantTook()
}

// addressedChanges counts what the latest step tells of p's addresses.
func (f *farm) addressedChanges() (n int) {
	for _, c := range f.agent.core.last.Changes {
		if c.Name == "p" && c.Condition.Type == status.Addressed {
			n++
		}
	}
	return n
}

// TestCase014_038_MeanwhileTheLeaseCounts: a proxy whose agent does not answer is
// Ready by its lease.
func TestCase014_038_MeanwhileTheLeaseCounts(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	f.hv.SetClaims(f.proxy("p").UUID, observe.FromLease, onP("192.168.122.9")...)
	f.restartP()
	f.wantAddresses("192.168.122.9 lease")
	f.wantReady("p")
}

// TestCase040_AContainersBridgeIsNoAddress: neither alone, nor before the
// guest's own interface.
func TestCase040_AContainersBridgeIsNoAddress(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	f.restartP()
	uuid := f.proxy("p").UUID
	f.hv.SetAgent(uuid, true)
	docker := observe.Claim{MAC: "02:42:11:22:33:44", Addr: netip.MustParseAddr("172.17.0.1")}
	f.hv.SetClaims(uuid, observe.FromAgent, docker)
	f.hv.SetClaims(uuid, observe.FromLease, onP("192.168.122.9")...)
	f.pass(2 * time.Minute)
	f.wantAddresses("192.168.122.9 lease") // asked, though the agent had an answer
	f.hv.SetClaims(uuid, observe.FromAgent, append([]observe.Claim{docker}, onP("192.168.122.10")...)...)
	f.pass(2 * time.Minute)
	f.wantAddresses("192.168.122.10 agent")
	f.hv.SetClaims(uuid, observe.FromAgent, docker) // its own interface is being set up anew
	f.pass(time.Minute)
	if got := f.proxy("p").Addresses[0]; got.Address.String() != "192.168.122.10" {
		t.Errorf("the address became %+v", got)
	}
}

// TestCase046_WithinOnePoll: an address of a running guest that comes or goes is
// seen a minute later.
func TestCase046_WithinOnePoll(t *testing.T) {
	t.Parallel()
	f := up(t)
	uuid := f.proxy("p").UUID
	f.hv.SetClaims(uuid, observe.FromAgent, onP("192.168.122.40")...)
	f.hv.SetAgent(uuid, true)
	f.settle()
	f.pass(10 * time.Minute)
	f.hv.SetClaims(uuid, observe.FromAgent, onP("192.168.122.40", "192.168.122.41")...)
	f.pass(readSlow)
	f.wantAddresses("192.168.122.40 agent", "192.168.122.41 agent")
	f.pass(10 * time.Minute)
	f.hv.SetClaims(uuid, observe.FromAgent, onP("192.168.122.40")...)
	f.pass(readSlow)
	f.wantAddresses("192.168.122.40 agent")
}

// TestCase049_AnotherMACsLeaseIsNotIts: whoever had the name before.
func TestCase049_AnotherMACsLeaseIsNotIts(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	f.hv.SetClaims(f.proxy("p").UUID, observe.FromLease, observe.Claim{MAC: "52:54:00:00:00:05", Addr: netip.MustParseAddr("192.168.122.5")})
	f.restartP()
	f.wantAddresses()
	f.wantAddressed(status.False, "NoAddressYet")
}

// TestCase053_NoAddressIsNoReasonToAct: for hours the VM is left alone, and
// asked after ever more slowly.
func TestCase053_NoAddressIsNoReasonToAct(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	f.restartP()
	f.pass(time.Hour)
	before := f.hv.String()
	reads, began := 0, f.now
	for f.now.Before(began.Add(2 * time.Hour)) {
		f.now = f.now.Add(time.Second)
		f.step(Tick{})
		reads += len(f.claims())
		f.settle()
	}
	f.wantTook()
	f.wantAddressed(status.False, "NoAddressYet")
	if d := cmp.Diff(before, f.hv.String()); d != "" {
		t.Errorf("something was done (-before +now):\n%s", d)
	}
	if reads < 100 || reads > 130 {
		t.Errorf("asked %d times in two hours", reads)
	}
}

// TestCase054_AnAgentThatMayNotTell: the lease counts, and it is not asked each
// second.
func TestCase054_AnAgentThatMayNotTell(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.restartP()
	uuid := f.proxy("p").UUID
	f.hv.SetAgent(uuid, true)
	f.settle()
	hv := refusingAgent{f.hv, new(int)}
	f.agent.p.Hypervisor = hv
	f.pass(10 * time.Minute)
	f.wantReady("p")
	if src := f.proxy("p").Addresses[0].Source; src != "lease" {
		t.Errorf("the address is from %s", src)
	}
	if *hv.asked < 10 || *hv.asked > 60 {
		t.Errorf("the agent was asked %d times in ten minutes", *hv.asked)
	}
	f.wantTook()
}

// refusingAgent is a guest agent that runs and may not tell its addresses.
type refusingAgent struct {
	Hypervisor
	asked *int
}

func (r refusingAgent) Claims(ctx context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error) {
	if src != observe.FromAgent {
		return r.Hypervisor.Claims(ctx, uuid, src)
	}
	*r.asked++
	return nil, &observe.Error{Op: "read addresses of domain", Object: uuid, Class: observe.Unavailable, Err: errors.New("not allowed")}
}

// TestI17_AnotherRunsAnswerCountsForNothing: what was asked before the domain was
// off is dropped.
func TestI17_AnotherRunsAnswerCountsForNothing(t *testing.T) {
	t.Parallel()
	f := up(t)
	f.quiet()
	old := f.runOf("p")
	f.restartP()
	f.step(ClaimsRead{Name: "p", Run: old, Answers: []Answer{{observe.FromLease, slices.Clone(onP("192.168.122.66"))}}})
	f.wantAddresses()
	f.step(Probed{Name: "p", Run: old})
	if _, probed := f.agent.core.obs.Probes["p"]; probed {
		t.Error("the probe of the former run counts")
	}
	claims := onP("192.168.122.66")
	claims[0].Source = observe.FromLease
	f.step(ClaimsRead{Name: "p", Run: f.runOf("p"), Answers: []Answer{{observe.FromLease, claims}}})
	f.wantAddresses("192.168.122.66 lease")
}
