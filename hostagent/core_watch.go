package hostagent

import (
	"net/netip"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Pace of the address reads and probes of one running proxy: quick while it
// comes up, then slow.
const (
	readMin  = time.Second
	readMax  = 15 * time.Second
	readSlow = time.Minute
	probeMin = 2 * time.Second
	probeMax = 15 * time.Second
)

// watch is the address reading and probing of one running proxy.
type watch struct {
	run                 uint64 // numbers watches: what was asked in another one is of another run of the domain
	reading, probing    bool
	asking              bool // a silent guest agent
	readAgain           bool
	reads, probes       int // in a row without the result hoped for
	silent              int // reads in a row that the guest agent kept waiting
	nextRead, nextProbe time.Time
	nextAgent           time.Time // a silent one is not asked before
	agentAgain          bool      // it is to be asked once more
	lastTarget          probe.Target
}

// startWatching makes the next reads quick: something happened.
func (c *Core) startWatching(name string, now time.Time) {
	w := c.watches[name]
	if w == nil {
		c.runs++
		w = &watch{run: c.runs}
		c.watches[name] = w
	}
	w.reads, w.nextRead = 0, now
	w.readAgain = w.reading
}

// watchAnew reads the addresses of all that runs soon: with the first read on a
// new link libvirt is told how long to wait for a guest agent.
func (c *Core) watchAnew(now time.Time) {
	for name := range c.watches {
		c.startWatching(name, now)
		c.watches[name].askAgent(now)
	}
}

// watch asks for the address reads and probes that are due, and forgets what
// was seen of proxies that do not run.
func (c *Core) watch(now time.Time) []Effect {
	c.watchWake = time.Time{}
	var out []Effect
	running := map[string]bool{}
	for _, p := range c.last.Proxies {
		d, ok := c.obs.Domains[p.UUID]
		if !ok || d.Power == observe.PowerOff || d.Owner == nil || c.memory.Proxies[p.Name].Last == nil {
			continue
		}
		running[p.Name] = true
		if d.Power == observe.PowerRunning {
			out = append(out, c.watchOne(now, p)...)
		}
	}
	for name := range c.watches {
		if !running[name] {
			delete(c.watches, name)
		}
	}
	if c.obs.Libvirt.Synced {
		for name := range c.obs.Sightings {
			if !running[name] {
				delete(c.obs.Sightings, name)
				delete(c.obs.Probes, name)
			}
		}
	}
	return out
}

// watchOne reads the addresses of one running proxy and probes it. A probe needs
// no libvirt: while that can not be seen it alone tells who serves.
func (c *Core) watchOne(now time.Time, p status.Proxy) []Effect {
	w := c.watches[p.Name]
	if w == nil {
		c.startWatching(p.Name, now)
		w = c.watches[p.Name]
	}
	var out []Effect
	if c.obs.Libvirt.Synced {
		out = c.readAddresses(now, p, w)
	}
	if r, _ := p.Condition(status.Reachable); !c.set.Policy.Probe || !r.Applies() || w.probing || p.URL == "" {
		return out
	}
	t := c.target(p)
	if t != w.lastTarget {
		w.lastTarget, w.nextProbe, w.probes = t, now, 0
	}
	if !now.Before(w.nextProbe) {
		w.probing = true
		return append(out, ProbeProxy{Name: p.Name, Run: w.run, Target: t})
	}
	c.watchWake = earlier(c.watchWake, w.nextProbe)
	return out
}

// readAddresses asks for the address reads that are due.
func (c *Core) readAddresses(now time.Time, p status.Proxy, w *watch) []Effect {
	var out []Effect
	ask := AskAll
	if w.silent > 0 {
		ask = AskHost
		out = append(out, c.askSilent(now, p, w)...)
	}
	if !w.reading && !now.Before(w.nextRead) {
		w.reading, w.readAgain = true, false
		w.agentAgain = w.agentAgain && ask == AskHost
		out = append(out, ReadClaims{Name: p.Name, UUID: p.UUID, Run: w.run, MACs: c.macs(p.Name), Ask: ask})
	}
	if !w.reading {
		c.watchWake = earlier(c.watchWake, w.nextRead)
	}
	return out
}

// askSilent asks a guest agent that kept its last asker waiting, when it is due.
func (c *Core) askSilent(now time.Time, p status.Proxy, w *watch) []Effect {
	if w.asking {
		return nil
	}
	if now.Before(w.nextAgent) {
		c.watchWake = earlier(c.watchWake, w.nextAgent)
		return nil
	}
	// Whatever comes of it, it is not asked again at once.
	w.asking, w.agentAgain, w.nextAgent = true, false, now.Add(readSlow)
	return []Effect{ReadClaims{Name: p.Name, UUID: p.UUID, Run: w.run, MACs: c.macs(p.Name), Ask: AskSilent}}
}

func (c *Core) target(p status.Proxy) probe.Target {
	sp := c.memory.Proxies[p.Name].Last
	return probe.Target{
		Addr: netip.AddrPortFrom(p.Addresses[0].Address, uint16(sp.Port)),
		Type: sp.Probe.Type, URL: sp.Probe.URL, Dest: sp.Probe.Target, ExpectStatus: sp.Probe.ExpectStatus,
		Credentials: sp.Probe.Credentials,
	}
}

// macs are the MACs of the NICs that the proxy's domain has by its latest good
// spec, separated by blanks.
func (c *Core) macs(name string) string {
	var out []string
	identity := domxml.Identity(name, c.generations[name])
	for i := range c.memory.Proxies[name].Last.Networks {
		out = append(out, domxml.MAC(c.set.Policy.HostID, identity, i))
	}
	return strings.Join(out, " ")
}

// claimsRead takes what the sources of addresses said. What a domain said that
// has been off since counts for nothing: another one may hold its address by
// now.
func (c *Core) claimsRead(now time.Time, ev ClaimsRead) {
	w := c.watches[ev.Name]
	if w == nil || w.run != ev.Run {
		return
	}
	agent := false
	for _, a := range ev.Answers {
		agent = agent || a.Source == observe.FromAgent && len(a.Claims) > 0
		c.obs.Sightings[ev.Name] = observe.Merge(c.obs.Sightings[ev.Name], a.Source, a.Claims, now, c.set.Policy.AddressStale)
	}
	w.heard(agent, ev.Silent, now)
	if ev.Ask == AskSilent {
		w.asking = false
		return
	}
	w.reading = false
	switch {
	case w.readAgain:
		w.nextRead = now
	case agent:
		w.reads, w.nextRead = 0, now.Add(readSlow)
	default:
		w.nextRead = now.Add(min(readMin<<min(w.reads, 10), readMax))
		w.reads++
		if w.reads > 40 {
			w.nextRead = now.Add(readSlow)
		}
	}
}

// askAgent has the guest agent asked now, and once more when it is being asked:
// something may have happened to it since.
func (w *watch) askAgent(now time.Time) {
	w.nextAgent = now
	w.agentAgain = w.reading || w.asking
}

// heard notes how the guest agent behaved. One that keeps its asker waiting is
// asked ever less often: who waits for it is not there for others.
func (w *watch) heard(answered, silent bool, now time.Time) {
	switch {
	case silent:
		if !w.agentAgain {
			w.nextAgent = now.Add(readSlow << min(w.silent, 4))
		} else {
			w.nextAgent, w.agentAgain = now, false
		}
		w.silent++
	case answered:
		w.silent = 0
	}
}

func (c *Core) probed(now time.Time, ev Probed) {
	w := c.watches[ev.Name]
	if w == nil || w.run != ev.Run {
		return
	}
	w.probing = false
	c.obs.Probes[ev.Name] = plan.Probe{
		Target: ev.Target.Addr, OK: ev.Result.OK, Void: ev.Result.Void(), Reason: ev.Result.Reason, Detail: ev.Result.Detail,
		Latency: ev.Result.Latency, Egress: ev.Result.EgressAddress, At: now,
	}
	if ev.Result.OK {
		w.probes, w.nextProbe = 0, now.Add(c.set.ProbeInterval)
		return
	}
	w.nextProbe = now.Add(min(probeMin<<min(w.probes, 10), probeMax, c.set.ProbeInterval))
	w.probes++
}
