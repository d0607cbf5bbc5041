package hostagent

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// batches settles as the agent does: what has ended meanwhile is planned once.
func (f *farm) batches() {
	f.t.Helper()
	for range 1000 {
		var events []Event
		for _, ef := range f.queue {
			switch ef := ef.(type) {
			case RescanSources:
				events = append(events, f.read())
			case RunAction:
				f.ran = append(f.ran, string(ef.Action.Kind)+" "+ef.Action.Name)
				f.agent.effect(f.t.Context(), ef, func(_ string, work func() Event) { events = append(events, work()) })
			default:
				f.agent.effect(f.t.Context(), ef, func(_ string, work func() Event) { events = append(events, work()) })
			}
		}
		f.queue = nil
		for more := true; more; {
			select {
			case ev := <-f.hv.Events():
				events = append(events, Hint{ev})
			default:
				more = false
			}
		}
		if len(events) == 0 {
			return
		}
		f.step(events...)
	}
	f.t.Fatal("does not settle")
}

// passInBatches lets time go by as pass does.
func (f *farm) passInBatches(d time.Duration) {
	f.t.Helper()
	end := f.now.Add(d)
	for f.batches(); !f.agent.core.Wake().After(end); f.batches() {
		f.now = f.agent.core.Wake().Add(time.Millisecond)
		f.step(Tick{})
	}
	f.now = end
}

// calls are what d of time, beginning with do, costs of hypervisor calls.
func (f *farm) calls(d time.Duration, do func()) map[string]int {
	f.t.Helper()
	before := f.hv.Calls()
	do()
	f.passInBatches(d)
	after := f.hv.Calls()
	for method, n := range before {
		after[method] -= n
	}
	maps.DeleteFunc(after, func(_ string, n int) bool { return n == 0 })
	return after
}

// quiet has n proxies p0, p1 … whose guest agents answer, none of them probed,
// at a moment at which nothing is due for almost a minute.
func quiet(t *testing.T, n int) *farm {
	t.Helper()
	f := newFarm(t)
	f.hv.AddNetwork(virttest.DefaultNetwork, netip.MustParsePrefix("10.9.0.0/16")) // room for all
	f.memory = 1 << 40
	f.agent.core.set.Policy.Probe = false
	f.tree.marker = observe.MarkerOK
	f.tree.bases[digest] = observe.Base{SHA256: digest, Path: "/tree/base/" + digest + ".qcow2", Format: "qcow2"}
	for i := range n {
		f.standing(f.spec(fmt.Sprintf("p%d", i), "x"))
	}
	f.step(f.read())
	f.passInBatches(10 * time.Second)
	f.step(Hint{observe.Event{Kind: observe.Connected}}) // reads of everything, all at this moment
	f.agent.core.nextResync = f.now
	f.passInBatches(2 * time.Second)
	f.wantReady("p0")
	f.took()
	return f
}

// standing puts a proxy where the agent would have it, running.
func (f *farm) standing(s spec.Spec) {
	f.t.Helper()
	const instance = "i-00000000000000ff"
	uuid, paths := domxml.DomainUUID(testHost, s.Name), f.tree.Paths(s.Name, instance)
	rec := observe.Record{
		Version: observe.RecordVersion, Host: testHost, Name: s.Name, UUID: uuid, Instance: instance, Origin: source.OriginDir,
		SpecHash: s.Hash().String(), Base: digest, Format: "qcow2", Created: f.now,
	}
	xml, err := domxml.Generate(domxml.Input{
		DomainName: domxml.DomainName(s.Name), Spec: s, Acceleration: domxml.TCG,
		Owner:   observe.Ownership{Host: testHost, Name: s.Name, Instance: instance, Origin: source.OriginDir, Spec: s.Hash(), Base: digest},
		Overlay: paths.Overlay, Base: f.tree.bases[digest], Seed: paths.Seed, Console: paths.Console,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.hv.AdminDefine(xml)
	f.hv.AdminSetAutostart(uuid, true)
	f.hv.AdminStart(uuid)
	f.hv.SetAgent(uuid, true)
	f.tree.incs[s.Name] = []observe.Incarnation{{Name: s.Name, Instance: instance, Overlay: true, Seed: true, Record: &rec}}
	f.specs[s.Name] = s
}

func (f *farm) proxyUUID(i int) string { return f.agent.core.uuidOf(fmt.Sprintf("p%d", i)) }

// TestAnEventCostsTheSameAmongMany: one event among n proxies makes the same
// hypervisor calls, whatever n is.
func TestAnEventCostsTheSameAmongMany(t *testing.T) {
	few, many := costs(t, 3), costs(t, 1000)
	for i, kind := range few {
		if d := cmp.Diff(kind.calls, many[i].calls); d != "" {
			t.Errorf("%s: calls among 3 proxies and among 1,000 (-3 +1000):\n%s", kind.name, d)
		}
		if (len(kind.calls) == 0) != (kind.name == "nothing") {
			t.Errorf("%s: %v calls", kind.name, kind.calls)
		}
	}
}

type cost struct {
	name  string
	calls map[string]int
}

// costs gives what each kind of event at the first of n proxies costs, until
// all that follows from it is done.
func costs(t *testing.T, n int) []cost {
	t.Helper()
	f := quiet(t, n)
	uuid := f.proxyUUID(0)
	began := time.Now()
	var out []cost
	for _, kind := range []struct {
		name string
		do   func()
		ran  []string
	}{
		{"nothing", func() {}, nil},
		{"agent connected", func() { f.hv.SetAgent(uuid, true) }, nil},
		{"destroyed", func() { f.hv.AdminDestroy(uuid) }, []string{"start p0"}},
		{"undefined and defined again", func() {
			xml, _ := f.hv.AdminXML(uuid)
			f.hv.AdminUndefine(uuid)
			f.hv.AdminDefine(xml)
			f.hv.AdminSetAutostart(uuid, true)
		}, nil},
		{"spec edited", func() { f.put("p0", "edited") },
			[]string{"prepare p0", "shutdown p0", "define p0", "start p0", "discard p0"}},
		{"spec removed", func() { f.remove("p0") }, []string{"shutdown p0", "undefine p0", "discard p0"}},
	} {
		out = append(out, cost{kind.name, f.calls(45*time.Second, kind.do)})
		if d := cmp.Diff(kind.ran, f.took()); d != "" {
			t.Errorf("%s among %d: actions (-want +got):\n%s", kind.name, n, d)
		}
		f.passInBatches(15*time.Second + time.Minute) // over the reads that are due, to the next quiet moment
		f.took()
	}
	t.Logf("%d proxies: %d kinds of events in %s", n, len(out), time.Since(began).Round(time.Millisecond))
	return out
}

// TestNothingHappeningCostsOnlySlowReads: between two resyncs libvirt is called
// for the address of each running proxy once a minute, and for nothing else.
func TestNothingHappeningCostsOnlySlowReads(t *testing.T) {
	for name, c := range map[string]struct {
		agent bool
		want  int // calls a minute and running proxy
	}{
		"guest agent answers":       {true, 1},
		"only the lease is to have": {false, 2}, // the agent is asked first, and not connected
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			const running, paused, off = 3, 1, 2
			for i := range running + paused + off {
				name := fmt.Sprintf("p%d", i)
				sp := f.spec(name, "x")
				sp.Off = i >= running+paused
				f.specs[name] = sp
			}
			f.step(f.read())
			f.passInBatches(10 * time.Second)
			for i := range running + paused {
				f.hv.SetAgent(f.proxyUUID(i), c.agent)
			}
			f.hv.AdminPause(f.proxyUUID(running))
			f.agent.core.set.Resync, f.agent.core.nextResync = 24*time.Hour, f.now.Add(24*time.Hour)
			f.passInBatches(20*time.Minute + 30*time.Second) // until the reads are slow
			const minutes = 30
			want := map[string]int{"Claims": minutes * running * c.want}
			if d := cmp.Diff(want, f.calls(minutes*time.Minute, func() {})); d != "" {
				t.Errorf("calls in %d minutes (-want +got):\n%s", minutes, d)
			}
		})
	}
}
