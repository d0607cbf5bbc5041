package hostagent

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

var simTime = flag.Duration("sim.time", 2*time.Second, "for how long TestSim tries seeds")

// TestSim runs random storms of specs, faults, admins and restarts on the
// deterministic core, checks the promises after each step, and then that the
// farm converges to exactly what is wanted. A failing seed is printed and
// replays with SIM_SEED=n.
func TestSim(t *testing.T) {
	if s := os.Getenv("SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		simulate(t, seed, true)
		return
	}
	for _, seed := range onceFailing {
		simulate(t, seed, false)
	}
	seeds := 0
	for seed, end := uint64(time.Now().UnixNano()), time.Now().Add(*simTime); time.Now().Before(end) && !t.Failed(); seed++ {
		simulate(t, seed, false)
		seeds++
	}
	t.Logf("%d seeds", seeds)
}

// onceFailing are seeds that found something once.
var onceFailing = []uint64{1, 2, 3, 7, 42, 1796047311060739082, 1796047614290067433, 1796049860947836740}

// storm is one simulation.
type storm struct {
	*farm
	rng     *rand.Rand
	log     []string
	late    []Event // of effects that have run and not been answered yet
	down    bool    // the link
	netDown bool
	about   map[string]birth // by UUID: the incarnation that was last seen
}

// birth is an incarnation with the spec it was made for.
type birth struct {
	instance, hash string
}

func simulate(t *testing.T, seed uint64, loud bool) {
	s := &storm{farm: newFarm(t), rng: rand.New(rand.NewPCG(seed, 1)), about: map[string]birth{}}
	s.hv.Preload(virttest.ForeignDomains()...)
	theirs := s.theirs()
	hung := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("SIM_SEED=%d does not end", seed)) })
	defer hung.Stop()
	defer func() {
		if loud || t.Failed() {
			t.Logf("SIM_SEED=%d make test-sim\n%s\n%s", seed, strings.Join(s.log, "\n"), s.hv)
		}
	}()
	for range 120 {
		s.blow()
		s.checkPromises()
		if t.Failed() {
			return
		}
	}
	s.calm()
	s.checkConverged()
	if d := cmp.Diff(theirs, s.theirs()); d != "" {
		t.Errorf("foreign domains changed:\n%s", d)
	}
}

func (s *storm) say(format string, a ...any) { s.log = append(s.log, fmt.Sprintf(format, a...)) }

// theirs is what can be seen of the domains of others.
func (s *storm) theirs() map[string]string {
	out := map[string]string{}
	for _, f := range virttest.ForeignDomains() {
		d, _ := s.hv.Domain(f.UUID)
		out[f.UUID] = fmt.Sprintf("%+v", d)
	}
	return out
}

// blow does one random thing.
func (s *storm) blow() {
	if s.rng.IntN(8) == 0 {
		s.admin()
		return
	}
	names := []string{"a", "b", "c", "d"}
	name := names[s.rng.IntN(len(names))]
	uuid := domxml.DomainUUID(testHost, name)
	_, exists := s.hv.Domain(uuid)
	switch n := s.rng.IntN(100); {
	case n < 45:
		s.work(1 + s.rng.IntN(8))
		return
	case n < 55:
		d := time.Duration(s.rng.IntN(50)) * time.Second
		s.say("pass %s", d)
		s.now = s.now.Add(d)
		s.step(Tick{})
	case n < 65:
		s.edit(name)
	case n < 71:
		s.say("remove %s", name)
		s.farm.remove(name)
	case n < 76:
		s.fault()
	case n < 80 && exists:
		s.say("admin destroys %s", name)
		s.hv.AdminDestroy(uuid)
	case n < 82 && exists:
		s.say("admin undefines %s", name)
		s.hv.AdminUndefine(uuid)
	case n < 84 && exists:
		s.say("guest %s ignores shutdown", name)
		s.hv.IgnoreShutdown(uuid, true)
	case n < 88:
		s.say("events are lost")
		for s.lostOne() {
		}
	case n < 91:
		s.synced = !s.synced
		s.say("source synced: %v", s.synced)
		s.step(s.read())
	case n < 94:
		s.mount()
	case n < 98:
		s.say("agent restarts")
		s.late = nil
		s.boot()
	default:
		s.say("probe answers: %v", !s.probeOK)
		s.probeOK = !s.probeOK
	}
}

// admin does what people do to domains and links.
func (s *storm) admin() {
	name := []string{"a", "b", "c", "d"}[s.rng.IntN(4)]
	uuid := domxml.DomainUUID(testHost, name)
	d, exists := s.hv.Domain(uuid)
	switch n := s.rng.IntN(9); {
	case n == 7 && exists && d.Power == observe.PowerRunning:
		s.say("%s fills its disk", name)
		s.tree.free = 0
		s.hv.FillDisk(uuid)
	case n == 7:
		s.say("there is room again")
		s.tree.free = roomy
		s.hv.FreeDisk()
	case n == 8:
		s.netDown = !s.netDown
		s.say("network down: %t", s.netDown)
		s.hv.AdminNetwork(virttest.DefaultNetwork, !s.netDown)
	case n == 0 && exists:
		s.say("admin pauses %s", name)
		s.hv.AdminPause(uuid)
	case n == 1 && exists:
		s.say("admin resumes %s", name)
		s.hv.AdminResume(uuid)
	case n == 2 && exists:
		s.say("admin starts %s", name)
		s.hv.AdminStart(uuid)
	case n == 3 && exists && d.Power == observe.PowerOff:
		s.say("admin renames %s", name)
		s.hv.AdminRename(uuid, fmt.Sprintf("mine-%s-%d", name, s.rng.IntN(3)))
	case n == 4:
		s.say("events come twice")
		s.hv.DoubleEvents(3)
	case n == 5 && s.down:
		s.say("link is back")
		s.hv.RestoreLink()
		s.down = false
	case n == 5:
		s.say("link is lost")
		s.hv.LoseLink("lost")
		s.down = true
	case n == 6:
		s.say("events overflow")
		s.hv.EmitOverflow()
	}
}

func (s *storm) lostOne() bool {
	select {
	case <-s.hv.Events():
		return true
	default:
		return false
	}
}

// edit writes a spec: new, with other user-data, or with other memory.
func (s *storm) edit(name string) {
	sp := s.farm.spec(name, "#cloud-config\n")
	if s.rng.IntN(2) == 0 {
		sp.UserData = spec.Secret(fmt.Sprintf("#cloud-config\n# %d\n", s.rng.IntN(3)))
	}
	sp.Memory = spec.Size(256+64*s.rng.IntN(2)) << 20
	s.say("put %s %s", name, sp.Hash())
	s.specs[name] = sp
	s.step(s.read())
}

// faulty are the hypervisor's methods that fail now and then.
var faulty = []string{"ListDomains", "LookupDomain", "Define", "Start", "Shutdown", "Destroy", "Undefine", "SetAutostart", "Resume", "DomainXML", "Claims"}

func (s *storm) fault() {
	classes := []observe.Class{observe.Transient, observe.Disconnected, observe.Clash, observe.Unavailable}
	m, c := faulty[s.rng.IntN(len(faulty))], classes[s.rng.IntN(len(classes))]
	err := &observe.Error{Op: m, Class: c, Err: errors.New("simulated")}
	n := 1 + s.rng.IntN(3)
	switch s.rng.IntN(4) {
	case 0:
		s.say("short list")
		var uuids []string
		for _, name := range []string{"a", "b", "c", "d"} {
			uuids = append(uuids, domxml.DomainUUID(testHost, name))
		}
		s.hv.ShortList(n, uuids...)
	case 1:
		s.say("%s fails after its effect, %d times, %s", m, n, c)
		s.hv.FailAfter(m, n, err)
	default:
		s.say("%s fails %d times, %s", m, n, c)
		s.hv.Fail(m, n, err)
	}
}

// mount takes the image tree's volume away, or brings it back.
func (s *storm) mount() {
	if s.tree.marker == observe.MarkerOK {
		s.tree.marker = observe.MarkerAbsent
	} else if s.agent.core.memory.TreeKnown {
		s.tree.marker = observe.MarkerOK
	}
	s.say("marker %s", s.tree.marker)
}

// work runs n pending things in random order.
func (s *storm) work(n int) {
	for range n {
		select {
		case ev := <-s.hv.Events():
			s.step(Hint{ev})
			continue
		default:
		}
		if s.rng.IntN(2) == 0 && s.deliver() {
			continue
		}
		if len(s.queue) == 0 {
			return
		}
		i := s.rng.IntN(len(s.queue))
		ef := s.queue[i]
		s.queue = slices.Delete(s.queue, i, i+1)
		if a, ok := ef.(RunAction); ok {
			s.say("%s %s: %s", a.Action.Kind, a.Action.Name, a.Action.Reason)
		}
		s.exec(ef)
	}
}

// exec runs an effect; its answer comes later, in any order.
func (s *storm) exec(ef Effect) {
	if _, ok := ef.(RescanSources); ok {
		s.run(ef)
		return
	}
	s.agent.effect(s.t.Context(), ef, func(_ string, work func() Event) { s.late = append(s.late, work()) })
}

// deliver hands over one answer that is due.
func (s *storm) deliver() bool {
	if len(s.late) == 0 {
		return false
	}
	i := s.rng.IntN(len(s.late))
	ev := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	s.say("answer %T", ev)
	s.step(ev)
	return true
}

var diskOf = regexp.MustCompile(`disk/[a-d]\.(i-[0-9a-f]+)\.qcow2`)

// checkDisk: a running domain's overlay is there.
func (s *storm) checkDisk(name string) {
	uuid := domxml.DomainUUID(testHost, name)
	d, _ := s.hv.Domain(uuid)
	xml, ok := s.hv.AdminXML(uuid)
	if !ok || d.Power == observe.PowerOff {
		return
	}
	if m := diskOf.FindStringSubmatch(xml); m != nil && !s.incarnation(name, m[1]) {
		s.t.Errorf("promise 8: %s runs on %s, whose overlay is gone", name, m[1])
	}
}

// checkPromises checks what must hold after each step.
func (s *storm) checkPromises() {
	seen := map[string]bool{}
	if w := s.agent.core.Wake(); w.Before(s.stepped) {
		s.t.Errorf("promise 15: the wake-up at %s is before the step at %s", w, s.stepped)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.checkDisk(name)
		d, ok := s.hv.Domain(domxml.DomainUUID(testHost, name))
		if !ok || d.Metadata == "" {
			continue
		}
		o, err := domxml.DecodeOwnership(d.Metadata)
		if err != nil {
			s.t.Errorf("%s: %v", name, err)
			continue
		}
		now := birth{o.Instance, o.Spec.Incarnation}
		if was, known := s.about[name]; known && was.hash == now.hash && was.instance != now.instance && s.incarnation(name, was.instance) {
			s.t.Errorf("promise 8: %s went from %s to %s with the same spec and its overlay intact", name, was.instance, now.instance)
		}
		s.about[name] = now
		seen[name] = true
		if !s.incarnation(name, o.Instance) {
			s.t.Errorf("promise 8: %s is defined on %s, which has no overlay", name, o.Instance)
		}
	}
	for name := range s.about {
		if !seen[name] {
			delete(s.about, name)
		}
	}
}

func (s *storm) incarnation(name, instance string) bool {
	return slices.ContainsFunc(s.tree.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance && i.Overlay })
}

// calm ends the storm: nothing fails any more.
func (s *storm) calm() {
	s.say("calm")
	s.synced, s.probeOK = true, true
	if s.down {
		s.hv.RestoreLink()
	}
	for s.deliver() {
	}
	if s.agent.core.memory.TreeKnown {
		s.tree.marker = observe.MarkerOK
	}
	for _, m := range faulty {
		s.hv.Fail(m, 0, nil)
		s.hv.FailAfter(m, 0, nil)
	}
	s.hv.ShortList(0)
	s.hv.AdminNetwork(virttest.DefaultNetwork, true)
	s.hv.FreeDisk()
	s.tree.free = roomy
	for _, name := range []string{"a", "b", "c", "d"} {
		uuid := domxml.DomainUUID(testHost, name)
		if _, ok := s.hv.Domain(uuid); ok {
			s.hv.IgnoreShutdown(uuid, false)
			s.hv.AdminResume(uuid)
		}
	}
	s.step(s.read())
	for range 30 {
		s.pass(time.Minute)
		s.step(s.read())
		for _, h := range s.agent.core.Status(s.now).Holds {
			s.step(Ordered{Order: order.Order{Verb: order.Release, Digest: h.Digest}})
		}
	}
	s.settle()
}

func (s *storm) checkConverged() {
	var have, want []string
	for _, p := range s.agent.core.Status(s.now).Proxies {
		have = append(have, fmt.Sprintf("%s %s", p.Name, p.Phase))
	}
	for _, name := range slices.Sorted(maps.Keys(s.specs)) {
		want = append(want, fmt.Sprintf("%s %s", name, status.PhaseReady))
		d, ok := s.hv.Domain(domxml.DomainUUID(testHost, name))
		if o, err := domxml.DecodeOwnership(d.Metadata); !ok || err != nil || o.Spec != s.specs[name].Hash() {
			s.t.Errorf("%s does not run its spec: %+v", name, d)
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		s.t.Errorf("did not converge (-want +have):\n%s\n%+v", d, s.agent.core.Status(s.now).Proxies)
	}
	ds, err := s.hv.ListDomains(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if n := len(ds) - len(virttest.ForeignDomains()); n != len(s.specs) {
		s.t.Errorf("%d domains of ours for %d specs", n, len(s.specs))
	}
	for name, incs := range s.tree.incs {
		if _, wanted := s.specs[name]; !wanted || len(incs) != 1 {
			s.t.Errorf("incarnations of %s left: %+v", name, incs)
		}
	}
}
