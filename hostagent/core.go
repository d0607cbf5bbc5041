package hostagent

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Settings is what the Core needs of the config.
type Settings struct {
	Host          string // host name, for people
	Version       string // of the agent
	URI           string // of libvirt, for people
	Policy        plan.Policy
	Images        map[string]spec.Image
	Resync        time.Duration // between two full looks
	ProbeInterval time.Duration // between two probes of a healthy proxy
	Origins       []string      // of the configured sources, in order of precedence
}

// Core is the deterministic heart: it owns the model of what is wanted, seen
// and remembered, and turns each event into effects. It has no goroutine, no
// clock and no I/O; one goroutine at a time may call it.
type Core struct {
	set     Settings
	desired map[string]source.Snapshot // by origin
	merged  source.Merged
	sources []status.Source // of merged, for people
	obs     plan.Observed
	memory  plan.Memory
	last    plan.Result

	claims  claimCache
	uuids   map[string]string // by identity
	absent  map[string]bool   // UUIDs that libvirt said "no domain" of
	looks   map[string]*look
	watches map[string]*watch
	runs    uint64 // watches made

	generations map[string]int // of this step, by proxy name

	degraded string // which calls do not work although the link is up

	began      time.Time // the first step
	clock      uint64    // counts steps; orders looks against lists
	listing    bool
	relist     bool   // another list is due: an event came while one was under way
	listAt     uint64 // when the list under way was asked for
	blindAt    uint64 // when libvirt was last lost from sight
	scanning   bool
	scanAt     uint64 // when the scan under way was asked for
	treeAt     uint64 // when an action's own scan last changed the tree
	rescanned  uint64 // Seq for which a rescan was asked
	nextResync time.Time
	nextScan   time.Time // of the tree and the host, when something waits for room
	lookWake   time.Time // when the next look is to be repeated
	watchWake  time.Time // when the next address read or probe is due
	keeper     keeper
	hands      atomic.Pointer[handsOff]
	refused    string // why the configuration on disk does not count
	refusedAt  time.Time
	answers    []answer // orders that wait for their memory to be on disk
	dry        bool     // nothing is done, and nothing written
}

// look is the single look-up of one UUID.
type look struct {
	under   bool // one is under way
	again   bool // another is due when it ends
	askedAt uint64
	seenAt  uint64
	fails   int
	next    time.Time
}

// NewCore makes a Core that has seen nothing yet. kept is what an earlier run
// left in the state directory.
func NewCore(set Settings, kept Kept) *Core {
	c := &Core{
		set:     set,
		desired: map[string]source.Snapshot{},
		memory:  living(kept.Memory, set.Policy.HostID),
		keeper:  newKeeper(kept),
		claims:  claimCache{},
		uuids:   map[string]string{},
		absent:  map[string]bool{},
		looks:   map[string]*look{},
		watches: map[string]*watch{},
	}
	c.obs.Libvirt.Detail = "libvirt has not been reached yet"
	c.obs.Domains = map[string]observe.Domain{}
	c.obs.Unsure = map[string]string{}
	c.obs.Busy = map[string]plan.Kind{}
	c.obs.Fetching = map[string]plan.Progress{}
	c.obs.Sightings = map[string][]observe.Sighting{}
	c.obs.Prefixes = map[spec.Network][]netip.Prefix{}
	c.obs.Probes = map[string]plan.Probe{}
	c.obs.Tree = observe.Tree{Detail: "the image tree has not been read yet"}
	c.merge()
	return c
}

// Step takes events in order, plans once, and gives the effects to run.
func (c *Core) Step(now time.Time, events ...Event) []Effect {
	if c.began.IsZero() {
		c.began = now
	}
	var out []Effect
	for _, ev := range events {
		c.clock++
		out = append(out, c.handle(now, ev)...)
	}
	out = append(out, c.resync(now)...)
	c.generations = plan.Generations(c.memory, c.set.Policy.HostID, c.obs, c.names)
	out = append(out, c.verifyAbsent(now)...)
	out = append(out, c.plan(now)...)
	out = append(out, c.save(now)...)
	out = append(out, c.watch(now)...)
	c.hands.Store(newHandsOff(c.memory))
	return out
}

// Wake is when Step wants a Tick though nothing happens.
func (c *Core) Wake() time.Time {
	return earlier(earlier(earlier(c.nextResync, c.last.Wake), earlier(c.lookWake, c.watchWake)), earlier(c.nextScan, c.keeper.wake()))
}

// earlier is the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (c *Core) handle(now time.Time, ev Event) []Effect {
	switch ev := ev.(type) {
	case SourceRead:
		c.desired[ev.Snapshot.Origin] = ev.Snapshot
		if s := ev.Snapshot; s.Origin == source.OriginDir && s.Synced {
			c.memory.SpecDir = s.Identity
		}
		c.merge()
		return c.newNetworks()
	case Hint:
		return c.hint(now, ev.Event)
	case DomainsListed:
		return c.listed(now, ev)
	case DomainLooked:
		return c.looked(now, ev)
	case TreeScanned:
		c.scanning = false
		if c.treeAt > c.scanAt { // an action has overtaken it
			return c.scan()
		}
		c.obs.Tree, c.obs.Measuring = ev.Tree, false
	case NetworksRead:
		maps.Copy(c.obs.Prefixes, ev.Prefixes)
		if ev.HostAddrs != nil {
			c.obs.HostAddrs = ev.HostAddrs
		}
		if ev.Memory > 0 {
			c.obs.Memory = plan.HostMemory{Available: ev.Memory, At: now}
		}
	case StateSaved:
		return c.stateSaved(now, ev)
	case Ordered:
		return c.obey(now, ev)
	case ClaimsRead:
		c.claimsRead(now, ev)
	case Reconfigured:
		c.reconfigured(now, ev)
	case LinkChecked:
		if ev.Degraded == "" { // who seemed silent may have been kept waiting only
			c.watchAnew(now)
		}
		c.degraded = ev.Degraded
		c.obs.Libvirt.Degraded = ev.Degraded
	case Probed:
		c.probed(now, ev)
	case ActionDone:
		return c.actionDone(now, ev)
	case FetchProgress:
		if _, under := c.obs.Fetching[ev.SHA256]; under {
			c.obs.Fetching[ev.SHA256] = plan.Progress{Done: ev.Done, Total: ev.Total}
		}
	}
	return nil
}

// merge lays the sources over each other. A source that was never read stands
// as one in doubt.
func (c *Core) merge() {
	var snaps []source.Snapshot
	for _, o := range c.set.Origins {
		s, ok := c.desired[o]
		if !ok {
			s = source.Snapshot{Origin: o, Problem: "the " + o + " source has not been read yet"}
		}
		snaps = append(snaps, s)
	}
	c.merged = source.Merge(snaps...)
	c.sources = nil
	for _, s := range snaps {
		c.sources = append(c.sources, sourceStatus(s, c.merged))
	}
}

// resync looks at everything again now and then: events are hints, and any of
// them may be lost (invariant 14).
func (c *Core) resync(now time.Time) []Effect {
	if !now.Before(c.nextResync) {
		c.nextResync, c.nextScan = now.Add(c.set.Resync), time.Time{}
		return append(c.list(), c.scan()...)
	}
	if !c.nextScan.IsZero() && !now.Before(c.nextScan) {
		c.nextScan = time.Time{}
		return c.scan()
	}
	return nil
}

func (c *Core) scan() []Effect {
	if c.scanning {
		return nil
	}
	c.scanning, c.scanAt = true, c.clock
	return []Effect{ScanTree{}, ReadNetworks{Networks: c.networks()}}
}

// newNetworks reads networks at once that no read has answered for yet.
func (c *Core) newNetworks() []Effect {
	missing := slices.DeleteFunc(c.networks(), func(n spec.Network) bool {
		_, known := c.obs.Prefixes[n]
		return known
	})
	if len(missing) == 0 || !c.obs.Libvirt.Synced {
		return nil
	}
	return []Effect{ReadNetworks{Networks: missing}}
}

// networks lists every network that a spec uses.
func (c *Core) networks() []spec.Network {
	set := map[spec.Network]bool{}
	for _, p := range c.merged.Proxies {
		if p.Spec != nil {
			for _, n := range p.Spec.Networks {
				set[n.Network] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(set), spec.Network.Compare)
}

// recheck is how soon the room that something waits for is looked at again.
const recheck = 10 * time.Second

// plan runs the planner over the model and turns its actions into effects.
func (c *Core) plan(now time.Time) []Effect {
	c.last = plan.Make(c.input(now))
	c.memory = c.last.Memory
	if c.last.Recheck && c.nextScan.IsZero() {
		c.nextScan = now.Add(recheck)
	}
	var out []Effect
	for _, a := range c.last.Actions {
		if a.Kind == plan.FetchImage {
			c.obs.Fetching[a.Image.SHA256] = plan.Progress{Total: -1}
		} else {
			c.obs.Busy[a.Name] = a.Kind
		}
		out = append(out, RunAction{a})
	}
	return append(out, c.rescan()...)
}

// input is what planning goes by now.
func (c *Core) input(now time.Time) plan.Input {
	in := plan.Input{
		Desired: c.merged, Observed: c.obs, Memory: c.memory, Generations: c.generations,
		Policy: c.set.Policy, Images: c.set.Images, UUID: c.uuid, Now: now,
	}
	if !c.dry {
		in.Stored = c.keeper.proxies
	}
	return in
}

// rescan asks for one more read of the sources, once per read.
func (c *Core) rescan() []Effect {
	if !c.last.Rescan {
		return nil
	}
	var seq uint64
	for _, s := range c.merged.Sources {
		seq += s.Seq
	}
	if seq == c.rescanned {
		return nil
	}
	c.rescanned = seq
	return []Effect{RescanSources{}}
}

// uuid is a memo of domxml.DomainUUID, which two hashes a call make too slow
// for every pass over all proxies.
func (c *Core) uuid(identity string) string {
	u, ok := c.uuids[identity]
	if !ok {
		u = domxml.DomainUUID(c.set.Policy.HostID, identity)
		c.uuids[identity] = u
	}
	return u
}

// uuidOf is the UUID of the proxy's domain.
func (c *Core) uuidOf(name string) string {
	return c.uuid(domxml.Identity(name, c.generations[name]))
}
