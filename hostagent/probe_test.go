package hostagent

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// asked is a Prober that gives one result and notes the targets.
type asked struct {
	result  probe.Result
	targets []probe.Target
}

func (a *asked) Probe(_ context.Context, t probe.Target) probe.Result {
	a.targets = append(a.targets, t)
	return a.result
}

// wantUntouched fails when the agent did anything since the farm was up.
func (f *farm) wantUntouched() {
	f.t.Helper()
	if got := f.took(); len(got) != 0 {
		f.t.Errorf("took %v, want the guest left alone", got)
	}
}

func TestCase058_APortThatOpensLate(t *testing.T) {
	f := newFarm(t)
	p := &asked{result: probe.Result{Reason: probe.ReasonConnectRefused}}
	f.agent.p.Prober = p
	f.put("p", "#cloud-config\n")
	f.pass(30 * time.Second)
	f.took()
	for range 7 { // up to four minutes
		f.pass(30 * time.Second)
		c, _ := f.proxy("p").Condition(status.Reachable)
		if got := f.proxy("p"); got.Phase != status.PhaseStarting || c.Status != status.False || c.Reason != probe.ReasonConnectRefused {
			t.Fatalf("after %s: phase %s, %+v", f.now.Sub(c.Since), got.Phase, c)
		}
	}
	p.result = probe.Result{OK: true}
	f.pass(30 * time.Second)
	if got := f.wantReady("p"); got.Starts != 1 {
		t.Errorf("%d starts, want 1", got.Starts)
	}
	f.wantUntouched()
}

func TestI09_AProbeThatCanNotBeMadeIsNoReasonToAct(t *testing.T) {
	f := up(t)
	p := &asked{result: probe.Result{Reason: probe.ReasonCredentialsMissing, Detail: "put it there"}}
	f.agent.p.Prober = p
	f.pass(time.Hour)
	c, _ := f.proxy("p").Condition(status.Reachable)
	if c.Status != status.Unknown || c.Reason != probe.ReasonCredentialsMissing || c.Message != "put it there" {
		t.Errorf("%+v, want it unknown, with the reason", c)
	}
	p.result = probe.Result{OK: true}
	f.pass(30 * time.Second)
	f.wantReady("p")
	f.wantUntouched()
}

func TestTheWholeProbeOfTheSpecIsAskedFor(t *testing.T) {
	f := newFarm(t)
	p := &asked{result: probe.Result{OK: true}}
	f.agent.p.Prober = p
	s := f.spec("p", "#cloud-config\n")
	s.Probe = spec.Probe{Type: spec.ProbeSOCKS5, Target: "connectivity.example:443", Credentials: "/c", URL: "http://connectivity.example/", ExpectStatus: 200}
	f.specs["p"] = s
	f.step(f.read())
	f.pass(30 * time.Second)
	f.wantReady("p")
	want := probe.Target{Type: "socks5", Dest: "connectivity.example:443", Credentials: "/c", URL: "http://connectivity.example/", ExpectStatus: 200}
	got := p.targets[0]
	got.Addr = netip.AddrPort{}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEgressAddressFollowsTheLastProbe(t *testing.T) {
	f := up(t)
	egress := netip.MustParseAddr("203.0.113.7")
	for _, step := range []struct {
		what   string
		result probe.Result
		want   netip.Addr
	}{
		{"told", probe.Result{OK: true, EgressAddress: egress}, egress},
		{"not told any more", probe.Result{OK: true}, netip.Addr{}},
		{"told again", probe.Result{OK: true, EgressAddress: egress}, egress},
		{"no answer", probe.Result{Reason: probe.ReasonTimeout}, netip.Addr{}},
		{"told after all", probe.Result{OK: true, EgressAddress: egress}, egress},
		{"no probe", probe.Result{Reason: probe.ReasonBadCredentials}, netip.Addr{}},
	} {
		f.agent.p.Prober = &asked{result: step.result}
		f.pass(time.Minute)
		p := f.proxy("p")
		if p.Egress != step.want {
			t.Errorf("%s: egress address %s, want %s", step.what, p.Egress, step.want)
		}
		doc, err := json.Marshal(p)
		if err != nil || strings.Contains(string(doc), `"egress_address":"203.0.113.7"`) != step.want.IsValid() ||
			strings.Contains(string(doc), "egress_address") != step.want.IsValid() {
			t.Errorf("%s: %v: %s", step.what, err, doc)
		}
	}
	f.agent.p.Prober = &asked{result: probe.Result{OK: true, EgressAddress: egress}}
	f.pass(time.Minute)
	f.agent.core.watches["p"].probing = true // and it does not end
	f.pass(5 * time.Minute)
	if p := f.proxy("p"); p.Egress.IsValid() {
		t.Errorf("stale: egress address %s, want none", p.Egress)
	}
	f.wantUntouched()
}
