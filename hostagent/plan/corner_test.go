package plan

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// a spec that came back while nothing could be seen starts the count anew
func TestI02_AReturnStartsTheCountOver(t *testing.T) {
	for name, gap := range map[string]func(*world){
		"unseen": func(w *world) { w.Observed.Libvirt.Synced = false },
		"busy":   func(w *world) { w.Observed.Busy = map[string]Kind{"p": Autostart} },
		"tree":   func(w *world) { w.Observed.Tree.Marker = observe.MarkerAbsent },
	} {
		t.Run(name, func(t *testing.T) {
			w := settledWorld(t)
			w.list(2, t0)
			w.make() // missed once
			tree := w.Observed.Tree
			gap(w)
			w.Now = t0.Add(10 * time.Second)
			w.list(3, w.Now, w.spec("p")) // back, for an hour
			w.make()
			w.Now = t0.Add(time.Hour)
			w.list(4, w.Now) // missed: the first time since
			w.make()
			w.Observed.Libvirt.Synced, w.Observed.Busy, w.Observed.Tree = true, nil, tree
			w.wantKinds(w.make())
		})
	}
}

func TestHostIDChangedIsSaid(t *testing.T) {
	w := newWorld(t)
	d := w.domain(w.spec("p"), inst, observe.PowerRunning)
	delete(w.Observed.Domains, d.UUID)
	d.UUID = domxml.DomainUUID("host-2", "p") // what a host with another id made
	d.Owner.Host = "host-2"
	w.Observed.Domains[d.UUID] = d
	w.wantCondition(w.make(), "p", status.Synced, status.False, "HostIDChanged")
}

func TestI17_AStaleClaimTakesNoFreshAddress(t *testing.T) {
	w := settledWorld(t)
	w.list(1, t0, w.spec("p"), w.spec("q"))
	w.incarnate(w.spec("q"), inst2)
	w.domain(w.spec("q"), inst2, observe.PowerRunning)
	s := func(name string, seen time.Time) []observe.Sighting {
		return []observe.Sighting{{Claim: observe.Claim{MAC: domxml.MAC(host, name, 0), Addr: netip.MustParseAddr("192.168.122.7"), Source: observe.FromLease}, Seen: seen}}
	}
	w.Observed.Sightings = map[string][]observe.Sighting{"p": s("p", t0.Add(-24*time.Hour)), "q": s("q", t0)}
	w.wantCondition(w.make(), "q", status.Addressed, status.True, "FromLease")
}

func TestDefineOnTheOverlaysOwnBase(t *testing.T) {
	w := newWorld(t)
	w.incarnate(w.spec("p"), inst)
	rec := w.Observed.Tree.Incarnations["p"][0].Record
	rec.SpecHash = spec.Hash{Version: spec.HashVersion + 1, Incarnation: "x", Machine: "y"}.String()
	rec.Base = "bbbb" // not in the tree
	for _, a := range w.make().Actions {
		if a.Kind == Define && a.Base.SHA256 != "bbbb" {
			t.Errorf("overlay on base bbbb is defined on base %s", a.Base.SHA256)
		}
	}
}

func TestARefusedShutdownIsForced(t *testing.T) {
	w := settledWorld(t)
	s := w.spec("p")
	s.Memory *= 2
	w.list(2, t0, s)
	r := w.make()
	w.wantKinds(r, Shutdown)
	w.Memory = r.Memory.Done(r.Actions[0], &observe.Error{Op: "shut down", Class: observe.Permanent, Err: errors.New("no ACPI")}, w.Now)
	w.Now = w.Now.Add(10 * time.Minute)
	w.wantKinds(w.make(), Destroy)
}

func TestABrokenSpecIsSaidWhateverElseGoesOn(t *testing.T) {
	w := settledWorld(t)
	w.domain(w.spec("p"), inst, observe.PowerOff)
	e := w.Desired.Proxies["p"]
	e.Problems = []string{"p.toml:3:1: memory: bad"}
	w.Desired.Proxies["p"] = e
	w.wantCondition(w.make(), "p", status.Synced, status.False, "SpecInvalid")
	w.Observed.Busy = map[string]Kind{"p": Start}
	w.wantCondition(w.make(), "p", status.Synced, status.False, "SpecInvalid")
}

func TestI04_RenamedIsShown(t *testing.T) {
	w := settledWorld(t)
	d := w.domain(w.spec("p"), inst, observe.PowerRunning)
	d.Name = "mine"
	w.Observed.Domains[d.UUID] = d
	r := w.make()
	for _, p := range r.Proxies {
		for _, c := range p.Conditions {
			if c.Reason == "Renamed" {
				return
			}
		}
	}
	t.Errorf("nowhere Renamed: %+v", r.Proxies)
}

// an action that succeeds and changes nothing
func TestSuccessWithoutEffectBacksOff(t *testing.T) {
	w := settledWorld(t)
	d := w.domain(w.spec("p"), inst, observe.PowerRunning)
	d.Autostart = false
	w.Observed.Domains[d.UUID] = d
	n := 0
	for range 100 {
		r := w.make()
		for _, a := range r.Actions {
			n++
			w.Memory = r.Memory.Done(a, nil, w.Now)
		}
	}
	if n > 5 {
		t.Errorf("%d times at one instant", n)
	}
}
func TestI05_ALaterRunIsAskedBeforeItIsForced(t *testing.T) {
	w := settledWorld(t)
	w.remove()
	w.wantKinds(w.make(), Shutdown)
	w.domain(w.spec("p"), inst, observe.PowerOff)
	w.make() // Undefine planned; it fails or is late
	w.domain(w.spec("p"), inst, observe.PowerRunning)
	w.Now = w.Now.Add(10 * time.Minute)
	w.wantKinds(w.make(), Shutdown) // asked, not forced at once
}
