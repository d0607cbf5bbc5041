package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Generations gives, by proxy name, how many VMs of that name were abandoned
// before the one that counts; names without one are left out. Tombstones say
// so, and where they were lost the claims of domains and the records in the
// tree do.
//
// A tombstone whose entry was lost has no name; names gives those that it could
// be of, and is called only then.
func Generations(m Memory, hostID string, obs Observed, names func() []string) map[string]int {
	out := map[string]int{}
	atLeast := func(name string, generation int) {
		if generation > out[name] {
			out[name] = generation
		}
	}
	nameless := false
	for uuid, t := range m.Tombstones {
		nameless = nameless || t.Name == ""
		// One from before the host took on another id says nothing of its VMs now.
		if uuid == domxml.DomainUUID(hostID, domxml.Identity(t.Name, t.Generation)) {
			atLeast(t.Name, t.Generation+1)
		}
	}
	for _, d := range obs.Domains {
		if o := d.Owner; o != nil && o.Host == hostID && o.Generation > 0 && genuine(d) {
			atLeast(o.Name, o.Generation)
		}
	}
	for name, incs := range obs.Tree.Incarnations {
		for _, i := range incs {
			switch r := i.Record; {
			case r == nil || r.Host != hostID:
			case r.Abandoned:
				atLeast(name, r.Generation+1)
			case r.Generation > 0:
				atLeast(name, r.Generation)
			}
		}
	}
	if nameless {
		m.passBuried(out, hostID, names())
	}
	return out
}

// passBuried raises the generations of names whose UUID was abandoned.
func (m Memory) passBuried(generations map[string]int, hostID string, names []string) {
	for _, name := range names {
		for {
			uuid := domxml.DomainUUID(hostID, domxml.Identity(name, generations[name]))
			if _, buried := m.Tombstones[uuid]; !buried {
				break
			}
			generations[name]++
		}
	}
}

// genuine tells whether a domain has the UUID that its claim must have: a clone
// that carries a copy of the metadata has another.
func genuine(d observe.Domain) bool {
	o := d.Owner
	return d.UUID == domxml.DomainUUID(o.Host, domxml.Identity(o.Name, o.Generation))
}

// uuid is the UUID of the proxy's domain.
func (p *planner) uuid(name string) string {
	return p.UUID(domxml.Identity(name, p.Generations[name]))
}

// buriedRecords are the UUIDs that records in the tree say were abandoned.
func (p *planner) buriedRecords() map[string]bool {
	out := map[string]bool{}
	for _, incs := range p.Observed.Tree.Incarnations {
		for _, i := range incs {
			if i.Record != nil && i.Record.Abandoned {
				out[i.Record.UUID] = true
			}
		}
	}
	return out
}

// buried tells whether a VM was abandoned: it is never touched again.
func (p *planner) buried(uuid string) bool {
	_, tomb := p.Memory.Tombstones[uuid]
	return tomb || p.records[uuid]
}

// abandonUnlisted writes the tombstone of a proxy that goes away with
// skip_cleanup set. It needs no look at anything: neither a libvirt that can
// not be seen nor a missing image tree keeps the name from being free
// (invariant 5).
func (p *planner) abandonUnlisted(s *subject) {
	if !s.away || s.mem.Held.Kind == HoldDeletion || s.mem.Delete || s.mem.Paused || p.Memory.PausedAll || !p.skipsCleanup(s) {
		return
	}
	if !p.cannotSee(s) && p.Observed.Tree.Marker == observe.MarkerOK && !p.exists(s) {
		return // there is nothing to leave alone
	}
	p.res.Memory.bury(s.uuid, s.name, p.Generations[s.name], "its spec went away with skip_cleanup set", p.Now)
	p.noteRemoval(s)
	s.gone = true
}

func (p *planner) skipsCleanup(s *subject) bool {
	return s.mem.SkipCleanup || slices.ContainsFunc(s.incs, func(i observe.Incarnation) bool {
		return p.oursIncarnation(i) && i.Record.SkipCleanup
	})
}

// bury adds a tombstone; maps of earlier values stay as they are.
func (m *Memory) bury(uuid, name string, generation int, why string, now time.Time) {
	m.Tombstones = maps.Clone(m.Tombstones)
	if m.Tombstones == nil {
		m.Tombstones = map[string]Tombstone{}
	}
	m.Tombstones[uuid] = Tombstone{UUID: uuid, Name: name, Generation: generation, At: now, Why: why}
}

// disown takes our claim off the VMs that were abandoned, once, when the
// tombstone is on disk: who can not be reached then is not touched later.
func (p *planner) disown() {
	if l := p.Observed.Libvirt; !l.Tried && !l.Synced || p.Observed.Tree.Marker == "" {
		return // the agent has just started: it has looked at nothing yet
	}
	for _, uuid := range slices.Sorted(maps.Keys(p.Memory.Tombstones)) {
		t := p.Memory.Tombstones[uuid]
		if _, busy := p.Observed.Busy[t.Name]; t.Left || !t.Saved || busy || p.Memory.PausedAll {
			continue
		}
		d, there := p.Observed.Domains[uuid]
		_, unsure := p.Observed.Unsure[uuid]
		p.act(Action{
			Kind: Disown, Name: t.Name, UUID: uuid, Generation: t.Generation, Reason: "it was abandoned: " + t.Why,
			On: there && !unsure && p.Observed.Libvirt.Synced && d.Owner != nil && d.Owner.Host == p.Policy.HostID,
		})
		p.leaving = t.Name
		return // one at a time, each on its own
	}
}

// disowned: whatever came of it, it was the only try.
func (m *Memory) disowned(uuid string) {
	t, ok := m.Tombstones[uuid]
	if !ok {
		return
	}
	m.Tombstones = maps.Clone(m.Tombstones)
	t.Left = true
	m.Tombstones[uuid] = t
}

// abandonedName says why a name is not free yet.
func (p *planner) abandonedName(uuid, domain string) string {
	t, ok := p.Memory.Tombstones[uuid]
	when := ""
	if ok {
		when = " on " + t.At.UTC().Format("2006-01-02")
	}
	return fmt.Sprintf("domain %s was abandoned%s and is left as it is; rename or remove it to free its name (virsh domrename %s NEW, while it is off)", domain, when, domain)
}
