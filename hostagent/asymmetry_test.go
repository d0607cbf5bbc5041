package hostagent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// blindSpot is a hypervisor that answers every question about some domains
// with an error; lists leave them out if it is short as well.
type blindSpot struct {
	*virttest.Fake
	hidden map[string]bool // UUIDs
	short  bool
	err    error
	asked  map[string]int // UUID: look-ups that failed
}

func (b *blindSpot) look(uuid string) error {
	if !b.hidden[uuid] {
		return nil
	}
	b.asked[uuid]++
	return b.err
}

func (b *blindSpot) LookupDomain(ctx context.Context, uuid string) (observe.RawDomain, error) {
	d, err := b.Fake.LookupDomain(ctx, uuid)
	return d, cmp.Or(b.look(uuid), err)
}

func (b *blindSpot) DomainXML(ctx context.Context, uuid string, inactive bool) (string, error) {
	xml, err := b.Fake.DomainXML(ctx, uuid, inactive)
	return xml, cmp.Or(b.look(uuid), err)
}

func (b *blindSpot) ListDomains(ctx context.Context) ([]observe.RawDomain, error) {
	ds, err := b.Fake.ListDomains(ctx)
	if b.short {
		ds = slices.DeleteFunc(ds, func(d observe.RawDomain) bool { return b.hidden[d.UUID] })
	}
	return ds, err
}

// through has the agent see and act through another hypervisor.
func (f *farm) through(hv Hypervisor) {
	f.agent.p.Hypervisor, f.agent.p.Executor.Hypervisor = hv, hv
}

// The two halves of one asymmetry. Who looks because a proxy is to go away must
// never be stopped for good by what can not be looked at: the way out is tried
// for ever, nobody waits for it, and an abandoned VM needs no look at all. Who
// looks because a proxy is to live must take an error for "I do not know", never
// for "it is gone": it is not built anew.
func TestI01_I05_AFailedLookNeverStopsADeletionAndNeverRebuilds(t *testing.T) {
	for name, c := range map[string]struct {
		class   observe.Class
		short   bool
		restart bool
	}{
		"transient":                     {class: observe.Transient},
		"disconnected":                  {class: observe.Disconnected},
		"short list":                    {class: observe.Transient, short: true},
		"after a restart":               {class: observe.Transient, restart: true},
		"short list, after a restart":   {class: observe.Transient, short: true, restart: true},
		"disconnected, after a restart": {class: observe.Disconnected, short: true, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsymmetry(t)
			a.blind = &blindSpot{
				Fake: a.hv, short: c.short, hidden: map[string]bool{}, asked: map[string]int{},
				err: &observe.Error{Op: "look up domain", Class: c.class, Err: errors.New("no answer")},
			}
			for _, name := range []string{"live", "dead", "going", "lost", "kept"} {
				a.blind.hidden[a.uuid(name)] = true
			}
			a.through(a.blind)
			a.goAway()
			if c.restart {
				a.boot()
				a.through(a.blind)
			}
			a.stayBlind()
			a.seeAgain()
		})
	}
}

// asymmetry has four proxies that are to live: seen and more can be seen, live
// and dead can not, and dead is off; and three on their way out that can not be
// seen: going is there, lost is already gone from libvirt, kept is to be left
// alone.
type asymmetry struct {
	*farm
	blind   *blindSpot
	before  map[string]status.Proxy
	changes int
}

func newAsymmetry(t *testing.T) *asymmetry {
	a := &asymmetry{farm: newFarm(t), before: map[string]status.Proxy{}}
	names := []string{"live", "dead", "seen", "more", "going", "lost", "kept"}
	for _, name := range names {
		a.specs[name] = a.spec(name, "#cloud-config\n")
	}
	kept := a.specs["kept"]
	kept.SkipCleanup = true
	a.specs["kept"] = kept
	a.step(a.read())
	a.pass(2 * time.Minute)
	for _, name := range names {
		a.before[name] = a.wantReady(name)
	}
	a.took()
	return a
}

func (a *asymmetry) uuid(name string) string { return domxml.DomainUUID(testHost, name) }

// goAway takes three specs away and one domain, and powers one off.
func (a *asymmetry) goAway() {
	a.hv.AdminDestroy(a.uuid("dead"))
	a.hv.AdminDestroy(a.uuid("lost"))
	a.hv.AdminUndefine(a.uuid("lost"))
	for _, name := range []string{"going", "lost", "kept"} {
		delete(a.specs, name)
	}
	a.step(a.read())
	a.changes = len(a.hv.Changes())
}

// stayBlind lets half an hour pass in which nothing can be seen.
func (a *asymmetry) stayBlind() {
	t := a.t
	a.put("new", "#cloud-config\n")
	a.pass(20 * time.Minute)
	early := a.blind.asked[a.uuid("going")]
	a.pass(10 * time.Minute)

	if again := a.blind.asked[a.uuid("going")] - early; again < 5 || again > 100 {
		t.Errorf("the way out was tried %d times in 10 minutes: neither given up nor hammered is wanted", again)
	}
	if c, _ := a.proxy("going").Condition(status.Synced); c.Status == status.True || !strings.Contains(c.Message, "no answer") {
		t.Errorf("what keeps the deletion up is not shown: %+v", c)
	}
	a.wantReady("seen") // nobody waits for it
	a.wantReady("new")
	for _, change := range a.hv.Changes()[a.changes:] {
		for name := range a.before {
			if name != "seen" && strings.HasSuffix(change, " "+a.uuid(name)) {
				t.Errorf("%s of %s, which can not be seen", change, name)
			}
		}
	}
	for _, ran := range a.took() {
		for _, bad := range []string{"prepare ", "define ", "discard ", "undefine "} {
			if kind, name, _ := strings.Cut(ran, " "); kind+" " == bad && name != "new" {
				t.Errorf("%s although it can not be seen", ran)
			}
		}
	}
	if _, found := a.tombstone("kept"); !found {
		t.Error("no tombstone: abandoning waits for a look-up")
	}
	if slices.ContainsFunc(a.agent.core.Status(a.now).Proxies, func(p status.Proxy) bool { return p.Name == "kept" }) {
		t.Error("the abandoned proxy is still one of the agent's")
	}
}

func (a *asymmetry) tombstone(name string) (state.Entry, bool) {
	for _, e := range a.store.Content().Entries {
		if e.Kind == state.Tombstone && e.Key == a.uuid(name) {
			return e, true
		}
	}
	return state.Entry{}, false
}

// seeAgain ends it: what was to go goes, what was to live is as it was.
func (a *asymmetry) seeAgain() {
	t := a.t
	clear(a.blind.hidden)
	a.blind.short = false
	a.pass(10 * time.Minute)
	for _, name := range []string{"live", "dead", "seen", "more"} {
		if now := a.wantReady(name); now.Instance != a.before[name].Instance || now.UUID != a.before[name].UUID {
			t.Errorf("%s is %s on %s, was %s on %s: it was built anew", name, now.UUID, now.Instance, a.before[name].UUID, a.before[name].Instance)
		}
		if n := len(a.tree.incs[name]); n != 1 {
			t.Errorf("%s has %d incarnations", name, n)
		}
	}
	for _, name := range []string{"going", "lost"} {
		if d, there := a.hv.Domain(a.uuid(name)); there || len(a.tree.incs[name]) != 0 {
			t.Errorf("%s is not gone: %+v, files %+v", name, d, a.tree.incs[name])
		}
	}
	if d, _ := a.hv.Domain(a.uuid("kept")); d.Power != observe.PowerRunning || len(a.tree.incs["kept"]) != 1 {
		t.Errorf("the abandoned VM was not left alone: %+v, files %+v", d, a.tree.incs["kept"])
	}
}
