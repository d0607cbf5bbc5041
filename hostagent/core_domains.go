package hostagent

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// lookRetry bounds the wait between two looks at a domain that could not be
// read.
const (
	lookRetryMin = time.Second
	lookRetryMax = 30 * time.Second
	listRetry    = 5 * time.Second
	connectRetry = 500 * time.Millisecond
	// connectGrace is how long a link that is not up yet is no fault.
	connectGrace = 3 * time.Second
)

// hint takes an event of the hypervisor: it only says where to look.
func (c *Core) hint(now time.Time, ev observe.Event) []Effect {
	switch ev.Kind {
	case observe.Connected, observe.Overflow:
		c.watchAnew(now)
		return c.list()
	case observe.LinkLost:
		c.blind(ev.Detail)
	case observe.DomainChanged, observe.AgentChanged:
		if name := c.nameOf(ev.UUID); name != "" {
			c.startWatching(name, now)
			if ev.Kind == observe.AgentChanged {
				c.watches[name].askAgent(now)
			}
		}
		if ev.Kind == observe.DomainChanged {
			return c.lookUp(ev.UUID)
		}
	}
	return nil
}

// blind forgets what only a working link can vouch for.
func (c *Core) blind(detail string) {
	c.obs.Libvirt = plan.Libvirt{Tried: true, Detail: detail}
	c.blindAt = c.clock
	clear(c.absent)
	clear(c.obs.Unsure)
}

// nameOf is the proxy whose domain has that UUID; empty when it is none of
// ours.
func (c *Core) nameOf(uuid string) string {
	d, ok := c.obs.Domains[uuid]
	if !ok || d.Owner == nil || d.Owner.Host != c.set.Policy.HostID {
		return ""
	}
	return d.Owner.Name
}

func (c *Core) list() []Effect {
	if c.listing {
		c.relist = true
		return nil
	}
	c.listing, c.relist, c.listAt = true, false, c.clock
	return []Effect{ListDomains{}}
}

func (c *Core) look(uuid string) *look {
	l := c.looks[uuid]
	if l == nil {
		l = &look{}
		c.looks[uuid] = l
	}
	return l
}

// lookUp asks for one look at a domain; while one is under way, one more.
func (c *Core) lookUp(uuid string) []Effect {
	l := c.look(uuid)
	if l.under {
		l.again = true
		return nil
	}
	l.under, l.again, l.next, l.askedAt = true, false, time.Time{}, c.clock
	return []Effect{LookupDomain{UUID: uuid}}
}

// listed takes a full list. What a look saw after the list began is newer
// than the list. A domain that was known and is not listed is looked at before
// it counts as absent: a list may be short (invariant 1).
func (c *Core) listed(now time.Time, ev DomainsListed) []Effect {
	c.listing = false
	switch {
	case ev.Err == nil && c.blindAt > c.listAt: // it is from before the link was lost
		return c.list()
	case ev.Err != nil && c.connecting(now, ev.Err):
		c.nextResync = earlier(c.nextResync, now.Add(connectRetry))
		if c.relist {
			return c.list()
		}
		return nil
	case ev.Err != nil:
		c.blind(ev.Err.Error())
		c.nextResync = earlier(c.nextResync, now.Add(listRetry))
		if c.relist {
			return c.list()
		}
		return nil
	}
	c.seeing()
	stalled := false
	fresh := make(map[string]observe.Domain, len(ev.Domains))
	for _, raw := range ev.Domains {
		if l := c.looks[raw.UUID]; l != nil && l.seenAt > c.listAt {
			continue
		}
		fresh[raw.UUID] = c.claims.read(raw)
		delete(c.absent, raw.UUID)
		delete(c.obs.Unsure, raw.UUID)
		stalled = stalled || raw.Stalled && !c.obs.Domains[raw.UUID].Stalled
	}
	out := c.newNetworks()
	if stalled {
		out = append(out, c.measure()...)
	}
	for _, uuid := range slices.Sorted(maps.Keys(c.obs.Domains)) {
		old := c.obs.Domains[uuid]
		if l := c.looks[uuid]; l != nil && l.seenAt > c.listAt {
			fresh[uuid] = old
			continue
		}
		if _, listed := fresh[uuid]; !listed && (old.Owner != nil || old.ClaimErr != "") {
			fresh[uuid] = old
			c.obs.Unsure[uuid] = "it is missing from the list of domains; looking at it alone"
			out = append(out, c.lookUp(uuid)...)
		}
	}
	c.obs.Domains = fresh
	c.forget()
	if c.relist {
		out = append(out, c.list()...)
	}
	return out
}

// connecting tells whether the agent has just started and the link is only on
// its way up.
func (c *Core) connecting(now time.Time, err error) bool {
	return !c.obs.Libvirt.Tried && observe.ClassOf(err) == observe.Disconnected && now.Before(c.began.Add(connectGrace))
}

// looked takes the look that was asked for. One that an action's own look has
// overtaken may show the domain as it was before: it is made again.
func (c *Core) looked(now time.Time, ev DomainLooked) []Effect {
	l := c.look(ev.UUID)
	l.under = false
	if l.seenAt > l.askedAt || c.blindAt > l.askedAt { // or it is from before the link was lost
		return c.lookUp(ev.UUID)
	}
	out := c.saw(now, ev)
	if l.again {
		out = append(out, c.lookUp(ev.UUID)...)
	}
	return out
}

// saw takes a look at one domain. Only the exact "no domain" means absent.
func (c *Core) saw(now time.Time, ev DomainLooked) []Effect {
	l := c.look(ev.UUID)
	l.seenAt = c.clock
	switch {
	case ev.Err == nil:
		l.fails, l.next = 0, time.Time{}
		delete(c.obs.Unsure, ev.UUID)
		delete(c.absent, ev.UUID)
		before := c.obs.Domains[ev.UUID].Stalled
		c.obs.Domains[ev.UUID] = c.claims.read(ev.Domain)
		if ev.Domain.Stalled && !before {
			return c.measure()
		}
	case errors.Is(ev.Err, observe.ErrNoDomain):
		l.fails, l.next = 0, time.Time{}
		delete(c.obs.Unsure, ev.UUID)
		delete(c.obs.Domains, ev.UUID)
		c.absent[ev.UUID] = true
	default:
		c.obs.Unsure[ev.UUID] = ev.Err.Error()
		l.next = now.Add(min(lookRetryMin<<min(l.fails, 10), lookRetryMax))
		l.fails++
	}
	return nil
}

// verifyAbsent keeps every proxy whose domain is not known uncertain until
// libvirt has said "no domain" of its UUID, and repeats looks that failed.
func (c *Core) verifyAbsent(now time.Time) []Effect {
	c.lookWake = time.Time{}
	if !c.obs.Libvirt.Synced {
		return nil
	}
	var out []Effect
	check := func(name string) {
		uuid := c.uuidOf(name)
		if _, known := c.obs.Domains[uuid]; known || c.absent[uuid] {
			return
		}
		if _, unsure := c.obs.Unsure[uuid]; !unsure {
			c.obs.Unsure[uuid] = "looking whether its domain exists"
			out = append(out, c.lookUp(uuid)...)
		}
	}
	for _, name := range c.names() {
		check(name)
	}
	for _, uuid := range slices.Sorted(maps.Keys(c.looks)) {
		switch l := c.looks[uuid]; {
		case l.under || l.next.IsZero():
		case now.Before(l.next):
			c.lookWake = earlier(c.lookWake, l.next)
		default:
			out = append(out, c.lookUp(uuid)...)
		}
	}
	return out
}

// claimCache keeps the decoded claim of each domain, so that a list in which
// nothing changed decodes nothing.
type claimCache map[string]cachedClaim

type cachedClaim struct {
	text  string
	owner *observe.Ownership
	err   string
}

func (cc claimCache) read(raw observe.RawDomain) observe.Domain {
	d := observe.Domain{RawDomain: raw}
	if raw.Metadata == "" {
		return d
	}
	have, ok := cc[raw.UUID]
	if !ok || have.text != raw.Metadata {
		have = cachedClaim{text: raw.Metadata}
		if o, err := domxml.DecodeOwnership(raw.Metadata); err != nil {
			have.err = err.Error()
		} else {
			have.owner = &o
		}
		cc[raw.UUID] = have
	}
	d.Owner, d.ClaimErr = have.owner, have.err
	return d
}

// names lists what is wanted, in the tree or remembered, in order.
func (c *Core) names() []string {
	set := map[string]bool{}
	for name := range c.merged.Proxies {
		set[name] = true
	}
	for name := range c.obs.Tree.Incarnations {
		set[name] = true
	}
	for name := range c.memory.Proxies {
		set[name] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// forget drops what is kept of domains that are neither there nor asked for.
func (c *Core) forget() {
	asked := map[string]bool{}
	for _, name := range c.names() {
		asked[c.uuidOf(name)] = true
	}
	gone := func(uuid string) bool {
		_, there := c.obs.Domains[uuid]
		return !there && !asked[uuid]
	}
	maps.DeleteFunc(c.claims, func(uuid string, _ cachedClaim) bool { return gone(uuid) })
	maps.DeleteFunc(c.uuids, func(_, uuid string) bool { return gone(uuid) })
	maps.DeleteFunc(c.absent, func(uuid string, _ bool) bool { return gone(uuid) })
	maps.DeleteFunc(c.obs.Unsure, func(uuid, _ string) bool { return gone(uuid) })
	maps.DeleteFunc(c.looks, func(uuid string, l *look) bool { return gone(uuid) && !l.under })
}

// seeing notes that libvirt can be seen. What failed because it could not is
// tried again at once.
func (c *Core) seeing() {
	if !c.obs.Libvirt.Synced {
		c.memory = c.memory.Reconnected()
	}
	c.obs.Libvirt = plan.Libvirt{Tried: true, Synced: true, Degraded: c.degraded}
}
