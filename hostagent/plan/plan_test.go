package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

const (
	host   = "host-1"
	digest = "aaaa"
	inst   = "i-0000000000000001"
	inst2  = "i-0000000000000002"
)

var (
	t0   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nat  = spec.Network{Network: "default"}
	nat4 = netip.MustParsePrefix("192.168.122.0/24")
)

// world is a Make input that tests bend.
type world struct {
	Input
	t *testing.T
}

// newWorld has one proxy "p" whose spec is good, an image tree with its base
// image, and a libvirt without domains.
func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Now = t0
	w.UUID = func(identity string) string { return domxml.DomainUUID(host, identity) }
	w.Policy = Policy{
		HostID: host, DeletionDelay: 30 * time.Second, ShutdownGrace: time.Minute, ShutdownRepeat: 10 * time.Second,
		Probe: true, ProbeStale: time.Minute, AddressStale: 3 * time.Minute,
		DiskReserve: 1 << 30, MaxUnavailable: 1, RolloutWait: 10 * time.Minute, ImageGrace: time.Hour,
	}
	w.Observed = Observed{
		Libvirt:  Libvirt{Synced: true},
		Domains:  map[string]observe.Domain{},
		Prefixes: map[spec.Network][]netip.Prefix{nat: {nat4}},
		Tree: observe.Tree{
			Root: "/tree", Marker: observe.MarkerOK, Free: 100 << 30,
			Bases:        map[string]observe.Base{digest: {SHA256: digest, Path: "/tree/base/x.qcow2", Format: "qcow2"}},
			Incarnations: map[string][]observe.Incarnation{},
		},
	}
	w.list(1, t0, w.spec("p"))
	return w
}

func (w *world) spec(name string) spec.Spec {
	return spec.Spec{
		Name: name, Image: spec.Image{Key: "debian", SHA256: digest, Format: "qcow2"}, CPUs: 1, Memory: 512 << 20,
		Port: 3128, UserData: spec.Secret("#cloud-config\n"), GuestAgent: true,
		Networks: []spec.NIC{{Network: nat}}, Probe: spec.Probe{Type: spec.ProbeTCP},
	}
}

// list makes the directory list exactly these specs.
func (w *world) list(seq uint64, read time.Time, specs ...spec.Spec) {
	snap := source.Snapshot{Origin: source.OriginDir, Seq: seq, Read: read, Synced: true, Entries: map[string]source.Entry{}}
	for _, s := range specs {
		if s.Own == "" {
			s.Own = s.Hash().String()
		}
		snap.Entries[s.Name] = source.Entry{Name: s.Name, Spec: &s, Hash: s.Hash()}
	}
	w.Desired = source.Merge(snap)
}

// incarnate puts a complete incarnation of s into the tree.
func (w *world) incarnate(s spec.Spec, instance string) {
	w.Observed.Tree.Incarnations[s.Name] = append(w.Observed.Tree.Incarnations[s.Name], observe.Incarnation{
		Name: s.Name, Instance: instance, Overlay: true, Seed: true,
		Record: &observe.Record{
			Host: host, Name: s.Name, UUID: domxml.DomainUUID(host, s.Name), Instance: instance, Origin: source.OriginDir,
			SpecHash: s.Hash().String(), Base: digest, Format: "qcow2",
		},
	})
}

// domain defines the domain of s on an incarnation.
func (w *world) domain(s spec.Spec, instance string, power observe.Power) observe.Domain {
	d := observe.Domain{
		RawDomain: observe.RawDomain{
			UUID: domxml.DomainUUID(host, s.Name), Name: domxml.DomainName(s.Name), Power: power, Persistent: true, Autostart: true,
		},
		Owner: &observe.Ownership{Host: host, Name: s.Name, Instance: instance, Origin: source.OriginDir, Spec: s.Hash(), Base: digest},
	}
	w.Observed.Domains[d.UUID] = d
	return d
}

// settled is a world in which "p" runs as its spec asks.
func settledWorld(t *testing.T) *world {
	w := newWorld(t)
	w.incarnate(w.spec("p"), inst)
	w.domain(w.spec("p"), inst, observe.PowerRunning)
	return w
}

// make runs Make and keeps its memory for the next call.
func (w *world) make() Result {
	w.t.Helper()
	w.Generations = Generations(w.Memory, host, w.Observed, func() []string { return slices.Collect(maps.Keys(w.Desired.Proxies)) })
	r := Make(w.Input)
	w.Memory = r.Memory
	return r
}

func kinds(r Result) []Kind {
	var out []Kind
	for _, a := range r.Actions {
		out = append(out, a.Kind)
	}
	return out
}

func (w *world) wantKinds(r Result, want ...Kind) {
	w.t.Helper()
	if d := cmp.Diff(want, kinds(r)); d != "" {
		w.t.Errorf("actions (-want +got):\n%s\nstatus: %+v", d, r.Proxies)
	}
}

func (w *world) wantCondition(r Result, name, typ string, want status.Truth, reason string) {
	w.t.Helper()
	for _, p := range r.Proxies {
		if p.Name != name {
			continue
		}
		c, _ := p.Condition(typ)
		if c.Status != want || c.Reason != reason {
			w.t.Errorf("%s %s is %s (%s: %s), want %s (%s)", name, typ, c.Status, c.Reason, c.Message, want, reason)
		}
		return
	}
	w.t.Errorf("no proxy %s in %v", name, r.Proxies)
}

func TestLifeStepByStep(t *testing.T) {
	w := newWorld(t)
	s := w.spec("p")
	delete(w.Observed.Tree.Bases, digest)
	w.wantKinds(w.make(), FetchImage)
	w.Observed.Fetching = map[string]Progress{digest: {1, 2}}
	w.wantKinds(w.make())
	w.Observed.Fetching = nil
	w.Observed.Tree.Bases[digest] = observe.Base{SHA256: digest}
	w.wantKinds(w.make(), Prepare)
	w.incarnate(s, inst)
	w.wantKinds(w.make(), Define)
	w.domain(s, inst, observe.PowerOff)
	w.wantKinds(w.make(), Start)
	w.domain(s, inst, observe.PowerRunning)
	r := w.make()
	w.wantKinds(r)
	w.wantCondition(r, "p", status.Synced, status.True, "InSync")
	w.wantCondition(r, "p", status.Addressed, status.False, "NoAddressYet")
	if r.Proxies[0].Phase != status.PhaseStarting {
		t.Errorf("phase %s, want Starting", r.Proxies[0].Phase)
	}
}

func TestReadyNeedsEverything(t *testing.T) {
	w := settledWorld(t)
	mac := domxml.MAC(host, "p", 0)
	addr := netip.MustParseAddr("192.168.122.7")
	w.Observed.Sightings = map[string][]observe.Sighting{"p": {{Claim: observe.Claim{MAC: mac, Addr: addr, Source: observe.FromAgent}, Seen: t0}}}
	w.wantCondition(w.make(), "p", status.Ready, status.Unknown, "ReachableNotProbed")
	w.Observed.Probes = map[string]Probe{"p": {Target: netip.AddrPortFrom(addr, 3128), OK: true, Reason: "Connected", At: t0}}
	r := w.make()
	w.wantCondition(r, "p", status.Ready, status.True, "Ready")
	if got := r.Proxies[0]; got.URL != "http://192.168.122.7:3128" || got.Phase != status.PhaseReady {
		t.Errorf("url %q phase %s", got.URL, got.Phase)
	}
	w.Now = t0.Add(2 * time.Minute)
	w.wantCondition(w.make(), "p", status.Ready, status.Unknown, "ReachableProbeStale")
	w.Observed.Libvirt = Libvirt{Detail: "gone"}
	w.wantCondition(w.make(), "p", status.Ready, status.Unknown, "SyncedCannotSee")
}

func TestI01_UnseenIsLeftAlone(t *testing.T) {
	for name, bend := range map[string]func(*world){
		"no link":       func(w *world) { w.Observed.Libvirt.Synced = false },
		"unsure lookup": func(w *world) { w.Observed.Unsure = map[string]string{domxml.DomainUUID(host, "p"): "time-out"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t) // no domain is seen: without the doubt it would be made
			bend(w)
			r := w.make()
			w.wantKinds(r)
			w.wantCondition(r, "p", status.Synced, status.Unknown, "CannotSee")
			w.list(2, t0.Add(time.Hour))
			w.incarnate(w.spec("p"), inst) // listed nowhere, files there: without the doubt it would be removed
			w.Now = t0.Add(2 * time.Hour)
			w.make()
			w.list(3, t0.Add(3*time.Hour))
			w.Now = t0.Add(3 * time.Hour)
			w.wantKinds(w.make())
		})
	}
}

func TestI04_OthersDomainsAreLeftAlone(t *testing.T) {
	clone := func(d observe.Domain) observe.Domain { d.UUID = "11111111-2222-3333-4444-555555555555"; return d }
	for name, c := range map[string]struct {
		bend   func(*world)
		reason string
	}{
		"same name, other UUID": {func(w *world) {
			w.Observed.Domains["u"] = observe.Domain{RawDomain: observe.RawDomain{UUID: "u", Name: "egress-p"}}
		}, "Conflict"},
		"our UUID, no claim": {func(w *world) {
			d := w.domain(w.spec("p"), inst, observe.PowerOff)
			d.Owner = nil
			w.Observed.Domains[d.UUID] = d
		}, "Conflict"},
		"our UUID, claim lost, record there": {func(w *world) {
			w.incarnate(w.spec("p"), inst)
			d := w.domain(w.spec("p"), inst, observe.PowerOff)
			d.Owner = nil
			w.Observed.Domains[d.UUID] = d
		}, "MetadataLost"},
		"claim of another host": {func(w *world) {
			d := w.domain(w.spec("p"), inst, observe.PowerOff)
			d.Owner.Host = "host-2"
		}, "HostIDChanged"},
		"clone with a copy of our claim": {func(w *world) {
			d := clone(w.domain(w.spec("p"), inst, observe.PowerOff))
			d.Name = "egress-p"
			w.Observed.Domains = map[string]observe.Domain{d.UUID: d}
		}, "Conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.bend(w)
			r := w.make()
			w.wantKinds(r)
			w.wantCondition(r, "p", status.Synced, status.False, c.reason)
		})
	}
}

func TestI02_RemovalNeedsTwoReads(t *testing.T) {
	w := settledWorld(t)
	w.list(2, t0)
	w.wantKinds(w.make())
	w.Now = t0.Add(29 * time.Second)
	w.wantKinds(w.make())
	w.Now = t0.Add(31 * time.Second)
	r := w.make()
	w.wantKinds(r) // the same read twice proves nothing
	if !r.Rescan {
		t.Error("no second read asked for")
	}
	w.list(3, w.Now)
	w.wantKinds(w.make(), Shutdown)

	t.Run("source in doubt starts over", func(t *testing.T) {
		w := settledWorld(t)
		w.list(2, t0)
		w.make()
		w.Desired.Sources[0].Synced = false
		w.make()
		w.Now = t0.Add(time.Hour)
		w.list(3, w.Now)
		w.wantKinds(w.make())
	})
	t.Run("source gone from the config", func(t *testing.T) {
		w := settledWorld(t)
		w.Desired = source.Merge()
		w.Now = t0.Add(time.Hour)
		r := w.make()
		w.wantKinds(r)
		w.wantCondition(r, "p", status.Synced, status.Unknown, "Orphaned")
	})
}

// remove brings the world to where the removal of "p" is confirmed.
func (w *world) remove() {
	w.list(2, t0)
	w.make()
	w.Now = t0.Add(40 * time.Second)
	w.list(3, w.Now)
}

func TestI05_RemovalGoesOnWhateverIsGone(t *testing.T) {
	uuid := domxml.DomainUUID(host, "p")
	t.Run("whole", func(t *testing.T) {
		w := settledWorld(t)
		w.remove()
		w.wantKinds(w.make(), Shutdown)
		w.Now = w.Now.Add(5 * time.Second)
		w.wantKinds(w.make()) // not yet again
		w.Now = w.Now.Add(5 * time.Second)
		w.wantKinds(w.make(), Shutdown) // the first one may have been lost
		w.Now = w.Now.Add(time.Minute)
		w.wantKinds(w.make(), Destroy)
		w.domain(w.spec("p"), inst, observe.PowerOff)
		w.wantKinds(w.make(), Undefine)
		delete(w.Observed.Domains, uuid)
		r := w.make()
		w.wantKinds(r, Discard)
		if !r.Actions[0].Last {
			t.Error("the only incarnation is not the last")
		}
		delete(w.Observed.Tree.Incarnations, "p")
		if r := w.make(); len(r.Proxies) != 0 || len(r.Memory.Proxies) != 0 {
			t.Errorf("not forgotten: %+v", r)
		}
	})
	t.Run("files gone", func(t *testing.T) {
		w := settledWorld(t)
		delete(w.Observed.Tree.Incarnations, "p")
		w.remove()
		w.domain(w.spec("p"), inst, observe.PowerOff)
		w.wantKinds(w.make(), Undefine)
	})
	t.Run("domain gone", func(t *testing.T) {
		w := newWorld(t)
		w.incarnate(w.spec("p"), inst)
		w.remove()
		w.wantKinds(w.make(), Discard)
	})
	t.Run("image and machine type no longer configured", func(t *testing.T) {
		w := settledWorld(t)
		w.Observed.Tree.Bases = nil
		w.remove()
		w.wantKinds(w.make(), Shutdown)
	})
	t.Run("a permanent error is retried for ever", func(t *testing.T) {
		w := settledWorld(t)
		w.domain(w.spec("p"), inst, observe.PowerOff)
		w.remove()
		for range 20 {
			r := w.make()
			w.wantKinds(r, Undefine)
			refused := &observe.Error{Op: "undefine", Class: observe.Permanent, Err: errors.New("no")}
			w.Memory = r.Memory.Done(r.Actions[0], refused, w.Now)
			w.wantKinds(w.make()) // not at once
			w.Now = w.Now.Add(2 * backoffMax)
			w.list(4, w.Now)
		}
	})
}

func TestI08_InstanceStaysWithItsOverlay(t *testing.T) {
	t.Run("domain undefined behind our back", func(t *testing.T) {
		w := newWorld(t)
		w.incarnate(w.spec("p"), inst)
		r := w.make()
		w.wantKinds(r, Define)
		if r.Actions[0].Instance != inst {
			t.Errorf("defined on %s, want its own overlay %s", r.Actions[0].Instance, inst)
		}
	})
	t.Run("other memory: same incarnation", func(t *testing.T) {
		w := settledWorld(t)
		s := w.spec("p")
		s.Memory *= 2
		w.list(2, t0, s)
		w.wantKinds(w.make(), Shutdown)
		w.domain(w.spec("p"), inst, observe.PowerOff)
		r := w.make()
		w.wantKinds(r, Define)
		if r.Actions[0].Instance != inst {
			t.Errorf("defined on %s, want %s", r.Actions[0].Instance, inst)
		}
	})
	t.Run("labels, probe, port: nothing", func(t *testing.T) {
		w := settledWorld(t)
		s := w.spec("p")
		s.Labels, s.Port, s.Probe = map[string]string{"a": "b"}, 8080, spec.Probe{Type: spec.ProbeHTTP, URL: "http://x/"}
		w.list(2, t0, s)
		w.wantKinds(w.make())
	})
}

func TestRecreateOnAFreshOverlay(t *testing.T) {
	w := settledWorld(t)
	s := w.spec("p")
	s.UserData = spec.Secret("#cloud-config\n# edited\n")
	w.list(2, t0, s)
	w.wantKinds(w.make(), Prepare) // while the old one runs
	w.incarnate(s, inst2)
	w.wantKinds(w.make(), Shutdown)
	w.domain(w.spec("p"), inst, observe.PowerOff)
	r := w.make()
	w.wantKinds(r, Define)
	if r.Actions[0].Instance != inst2 {
		t.Errorf("defined on %s, want the new %s", r.Actions[0].Instance, inst2)
	}
	w.domain(s, inst2, observe.PowerOff)
	w.wantKinds(w.make(), Start) // the old overlay is still there
	w.domain(s, inst2, observe.PowerRunning)
	r = w.make()
	w.wantKinds(r, Discard)
	if a := r.Actions[0]; a.Instance != inst || a.Last {
		t.Errorf("discards %+v, want %s and not as the last", a, inst)
	}
}

func TestI09_SilenceIsNoReasonToKill(t *testing.T) {
	w := settledWorld(t)
	w.Observed.Probes = map[string]Probe{"p": {OK: false, Reason: "Timeout", At: t0}}
	for range 100 {
		w.Now = w.Now.Add(time.Hour)
		w.wantKinds(w.make())
	}
}

func TestI10_AnotherHashVersionRecreatesNothing(t *testing.T) {
	w := settledWorld(t)
	d := w.domain(w.spec("p"), inst, observe.PowerRunning)
	d.Owner.Spec = spec.Hash{Version: spec.HashVersion + 1, Incarnation: "x", Machine: "y"}
	w.wantKinds(w.make())
}

func TestI16_NoDiskDecisionWithoutMarker(t *testing.T) {
	edited := func(w *world) {
		s := w.spec("p")
		s.UserData = spec.Secret("other")
		w.list(2, t0, s)
	}
	for _, marker := range []observe.MarkerState{observe.MarkerAbsent, observe.MarkerForeign, observe.MarkerUnreadable} {
		for name, bend := range map[string]func(*world){
			"new":      func(w *world) { w.Observed.Domains = map[string]observe.Domain{} },
			"settled":  func(*world) {},
			"edited":   edited,
			"off":      func(w *world) { w.domain(w.spec("p"), inst, observe.PowerOff) },
			"unwanted": func(w *world) { w.Desired.Proxies = nil; w.remove() },
		} {
			t.Run(string(marker)+" "+name, func(t *testing.T) {
				w := settledWorld(t)
				bend(w)
				w.Memory.TreeKnown = true
				w.Observed.Tree = observe.Tree{Marker: marker, Empty: marker == observe.MarkerAbsent}
				r := w.make()
				w.wantKinds(r)
				w.wantCondition(r, "p", status.Synced, status.Unknown, reasonTree)
			})
		}
	}
}

func TestI16_AFreshTreeIsMadeOnce(t *testing.T) {
	fresh := func(t *testing.T) *world {
		w := newWorld(t)
		w.Observed.Tree = observe.Tree{Marker: observe.MarkerAbsent, Empty: true}
		return w
	}
	w := fresh(t)
	w.wantKinds(w.make(), InitTree)
	for name, bend := range map[string]func(*world){
		"a tree was here before":   func(w *world) { w.Memory.TreeKnown = true },
		"a domain of ours is here": func(w *world) { w.domain(w.spec("q"), inst, observe.PowerRunning) },
		"libvirt is not seen":      func(w *world) { w.Observed.Libvirt.Synced = false },
		"not empty":                func(w *world) { w.Observed.Tree.Empty = false },
	} {
		t.Run(name, func(t *testing.T) {
			w := fresh(t)
			bend(w)
			w.wantKinds(w.make())
		})
	}
}

func TestI17_ClaimsOfAGuest(t *testing.T) {
	mac := func(name string) string { return domxml.MAC(host, name, 0) }
	claim := func(name, addr string) observe.Sighting {
		return observe.Sighting{Claim: observe.Claim{MAC: mac(name), Addr: netip.MustParseAddr(addr), Source: observe.FromAgent}, Seen: t0}
	}
	w := settledWorld(t)
	w.list(1, t0, w.spec("p"), w.spec("q"))
	w.incarnate(w.spec("q"), inst2)
	w.domain(w.spec("q"), inst2, observe.PowerRunning)
	w.Observed.HostAddrs = []netip.Addr{netip.MustParseAddr("192.168.122.1")}
	w.Observed.Sightings = map[string][]observe.Sighting{
		"p": {claim("p", "192.168.122.7")}, "q": {claim("q", "192.168.122.7")},
	}
	r := w.make()
	w.wantCondition(r, "p", status.Addressed, status.False, "AddressConflict")
	w.wantCondition(r, "q", status.Addressed, status.False, "AddressConflict")
	w.Observed.Sightings = map[string][]observe.Sighting{"p": {claim("p", "192.168.122.1")}, "q": {claim("q", "10.0.0.1")}}
	r = w.make()
	w.wantCondition(r, "p", status.Addressed, status.False, "AddressNotBelieved")
	w.wantCondition(r, "q", status.Addressed, status.False, "AddressNotBelieved")
	var many []observe.Sighting
	for i := range 250 {
		many = append(many, claim("q", fmt.Sprintf("10.0.0.%d", i+1)))
	}
	w.Observed.Sightings["q"] = many
	r = w.make()
	if c, _ := r.Proxies[1].Condition(status.Addressed); len(c.Message) > 300 || !strings.HasSuffix(c.Message, "and 247 more") {
		t.Errorf("%d bytes: %s", len(c.Message), c.Message)
	}
}

func TestBrokenSpecKeepsWhatRuns(t *testing.T) {
	w := settledWorld(t)
	e := w.Desired.Proxies["p"]
	e.Problems = []string{"p.toml:3:1: memory: bad"}
	w.Desired.Proxies["p"] = e
	r := w.make()
	w.wantKinds(r)
	w.wantCondition(r, "p", status.Synced, status.False, "SpecInvalid")
	e.Spec = nil // after a restart there is no last good one
	w.Desired.Proxies["p"] = e
	r = w.make()
	w.wantKinds(r)
	if c, _ := r.Proxies[0].Condition(status.Synced); !strings.Contains(c.Message, "p.toml:3:1") {
		t.Errorf("message %q does not name the file", c.Message)
	}
}

func TestCrashLoopBacksOff(t *testing.T) {
	w := settledWorld(t)
	w.domain(w.spec("p"), inst, observe.PowerOff)
	var starts []time.Duration
	last := w.Now
	for len(starts) < 6 {
		r := w.make()
		if len(r.Actions) == 1 {
			starts = append(starts, w.Now.Sub(last))
			last = w.Now
			w.Memory = r.Memory.Done(r.Actions[0], nil, w.Now)
		}
		w.Now = w.Now.Add(time.Second)
	}
	for i := 2; i < len(starts); i++ {
		if starts[i] <= starts[i-1] {
			t.Errorf("waits between starts do not grow: %v", starts)
		}
	}
	w.Now = w.Now.Add(steadyRun)
	r := w.make()
	w.Memory = r.Memory.Done(r.Actions[0], nil, w.Now)
	if n := w.Memory.Proxies["p"].Starts.Short; n != 0 {
		t.Errorf("a long run did not reset the count: %d", n)
	}
}

func TestPermanentErrorWaitsForAnotherSpec(t *testing.T) {
	w := newWorld(t)
	r := w.make()
	refused := &observe.Error{Op: "build seed", Class: observe.Permanent, Err: errors.New("no")}
	w.Memory = r.Memory.Done(r.Actions[0], refused, w.Now)
	w.Now = w.Now.Add(24 * time.Hour)
	r = w.make()
	w.wantKinds(r)
	w.wantCondition(r, "p", status.Synced, status.False, "ActionRefused")
	s := w.spec("p")
	s.Memory *= 2
	w.list(2, w.Now, s)
	w.wantKinds(w.make(), Prepare)
}

func TestAWrongImageIsNotFetchedAgainAtOnce(t *testing.T) {
	w := newWorld(t)
	delete(w.Observed.Tree.Bases, digest)
	r := w.make()
	w.wantKinds(r, FetchImage)
	wrong := &observe.Error{Op: "fetch image", Class: observe.Permanent, Err: errors.New("sha256 is not what was asked for")}
	w.Memory = r.Memory.Done(r.Actions[0], wrong, w.Now)
	w.Now = w.Now.Add(refetch - time.Second)
	w.wantKinds(w.make())
	w.Now = w.Now.Add(2 * time.Second)
	w.wantKinds(w.make(), FetchImage)
}

func TestMakeLeavesItsArgumentsAlone(t *testing.T) {
	w := settledWorld(t)
	w.list(2, t0, w.spec("q"), w.spec("r")) // p is missed, q and r are new
	refused := &observe.Error{Op: "prepare", Class: observe.Transient, Err: errors.New("no")}
	w.Memory = w.make().Memory.Done(Action{Kind: Prepare, Name: "q", Hash: w.spec("q").Hash()}, refused, t0)
	w.Now = t0.Add(time.Hour)
	before := deepCopy(w.Memory)
	a := Make(w.Input)
	_ = a.Memory.Done(a.Actions[0], refused, w.Now)
	_ = a.Memory.Reconnected()
	if d := cmp.Diff(before, w.Memory, cmp.AllowUnexported(netip.Addr{})); d != "" {
		t.Errorf("the memory that was given changed:\n%s", d)
	}
	for range 10 { // whatever order maps are walked in
		if d := cmp.Diff(a, Make(w.Input), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Fatalf("the same input gave another result:\n%s", d)
		}
	}
}

func deepCopy(m Memory) Memory {
	c := m
	c.Proxies, c.Images, c.Host = map[string]Proxy{}, maps.Clone(m.Images), slices.Clone(m.Host)
	for name, p := range m.Proxies {
		p.Conditions = slices.Clone(p.Conditions)
		if p.Absent != nil {
			a := *p.Absent
			p.Absent = &a
		}
		if p.Stop != nil {
			st := *p.Stop
			p.Stop = &st
		}
		c.Proxies[name] = p
	}
	return c
}
