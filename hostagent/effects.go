package hostagent

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Lanes keep what may hang apart: a guest that does not answer delays no
// action, a slow mirror no address.
const (
	laneActions = "actions"
	laneFetch   = "fetch"
	laneLooks   = "looks"
	laneClaims  = "claims"
	laneSilent  = "silent guests"
	laneProbes  = "probes"
	laneLocal   = "local"
	laneState   = "state"
)

// lane is a bounded pool with a queue. The Core asks for each thing at most
// once at a time, so a queue is never longer than the number of proxies.
type lane struct {
	limit   int
	running int
	waiting []func() Event
}

// queue puts an effect into its lane.
func (a *Agent) queue(work context.Context, ef Effect) {
	a.effect(work, ef, func(name string, f func() Event) {
		a.lanes[name].waiting = append(a.lanes[name].waiting, f)
	})
}

// effect hands the work of an effect to put, with the lane it belongs to.
func (a *Agent) effect(work context.Context, ef Effect, put func(lane string, f func() Event)) {
	switch ef := ef.(type) {
	case ListDomains:
		put(laneLooks, func() Event {
			ds, err := a.p.Hypervisor.ListDomains(work)
			return DomainsListed{Domains: ds, Err: err}
		})
	case LookupDomain:
		put(laneLooks, func() Event {
			d, err := a.p.Hypervisor.LookupDomain(work, ef.UUID)
			return DomainLooked{UUID: ef.UUID, Domain: d, Err: err}
		})
	case ScanTree:
		put(laneLocal, func() Event { return TreeScanned{a.p.Tree.Scan()} })
	case ReadNetworks:
		put(laneLooks, func() Event { return a.readNetworks(work, ef.Networks) })
	case ReadClaims:
		name := laneClaims
		if ef.Ask == AskSilent { // it would keep others from their answers
			name = laneSilent
		}
		put(name, func() Event { return a.readClaims(work, ef) })
	case ProbeProxy:
		prober := a.p.Prober // another may count by the time it is run
		put(laneProbes, func() Event {
			return Probed{Name: ef.Name, Run: ef.Run, Target: ef.Target, Result: prober.Probe(work, ef.Target)}
		})
	case RunAction:
		a.queueAction(work, ef.Action, put)
	case RescanSources:
		for _, s := range a.p.Sources {
			s.Rescan()
		}
	case SaveState:
		put(laneState, func() Event {
			for _, why := range ef.Skipped {
				a.p.Log.Error("not kept over a restart", "error", why)
			}
			err := a.p.State.Save(ef.Changes...)
			if err != nil {
				a.p.Log.Warn("state not saved; trying again later", "error", err)
			}
			return StateSaved{Err: err}
		})
	case Answered:
		a.answered(ef)
	case TakeOnHostID:
		a.rewire = true
	}
}

func (a *Agent) queueAction(work context.Context, act plan.Action, put func(string, func() Event)) {
	name := laneActions
	if act.Kind == plan.FetchImage {
		name = laneFetch
	}
	a.begun[actionKey(act)] = a.p.Now()
	a.logAction(act)
	put(name, func() Event {
		// It may have waited, and an order been answered meanwhile.
		if a.core.hands.Load().keeps(act) {
			return a.seenAfter(work, ActionDone{Action: act, Err: errHandsOff})
		}
		return a.seenAfter(work, ActionDone{Action: act, Err: a.p.Executor.Run(work, act)})
	})
}

// seenAfter adds to an ended action what is there now.
func (a *Agent) seenAfter(work context.Context, done ActionDone) ActionDone {
	switch done.Action.Kind {
	case plan.InitTree, plan.FetchImage, plan.Collect:
		t := a.p.Tree.Scan()
		done.Tree = &t
		return done
	case plan.Prepare, plan.Discard, plan.Record, plan.Disown:
	default:
		uuid := done.Action.UUID
		d, err := a.p.Hypervisor.LookupDomain(work, uuid)
		done.Look = &DomainLooked{UUID: uuid, Domain: d, Err: err}
	}
	done.Incarnations = a.p.Tree.ScanName(done.Action.Name)
	done.Blind = a.p.Tree.CheckMarker() != nil
	return done
}

// dispatch starts what the lanes have room for.
func (a *Agent) dispatch(work context.Context) {
	for _, l := range a.lanes {
		for l.running < l.limit && len(l.waiting) > 0 {
			f := l.waiting[0]
			l.waiting = l.waiting[1:]
			l.running++
			a.spawn(func() { a.send(work, ended{l, f()}) })
		}
	}
}

// ended carries an effect's event and gives its lane's place back.
type ended struct {
	lane *lane
	Event
}

// unwrap takes from events in place what is the Agent's own: places in lanes,
// and what is to be tuned.
func (a *Agent) unwrap(batch []Event) {
	for i, ev := range batch {
		switch e := ev.(type) {
		case ended:
			e.lane.running--
			batch[i] = e.Event
		case retuned:
			a.tune(e.Tuning)
			batch[i] = e.Reconfigured
		}
	}
	for _, ev := range batch {
		if done, ok := ev.(ActionDone); ok {
			a.logDone(done)
			delete(a.begun, actionKey(done.Action))
		}
	}
}

// readNetworks reads subnets: of libvirt's networks from libvirt, of bridges and
// of interfaces that macvtaps are on from the host's own interfaces. What can
// not be read is left out, so that the last answer stands.
func (a *Agent) readNetworks(ctx context.Context, nets []spec.Network) Event {
	ev := NetworksRead{Prefixes: map[spec.Network][]netip.Prefix{}}
	for _, n := range nets {
		var ps []netip.Prefix
		var err error
		if iface := n.Bridge + n.Direct; iface != "" {
			ps, err = a.p.Host.InterfacePrefixes(iface)
		} else {
			ps, err = a.p.Hypervisor.NetworkPrefixes(ctx, n.Network)
		}
		if err != nil {
			a.p.Log.Debug("network not read", "network", n.String(), "error", err)
			continue
		}
		ev.Prefixes[n] = ps
	}
	var err error
	if ev.Memory, err = a.p.Host.MemoryAvailable(); err != nil {
		a.p.Log.Debug("the host's free memory could not be read", "error", err)
	}
	if ev.HostAddrs, err = a.p.Host.Addresses(); err != nil {
		a.p.Log.Warn("the host's own addresses could not be read", "error", err)
	}
	return ev
}

// silentAfter tells a guest agent that kept its asker waiting, for a second at
// least, from one that is not connected.
const silentAfter = 500 * time.Millisecond

// readClaims asks the sources in order of trust and stops at the first that
// has an answer, so that a proxy whose agent answers costs one call.
func (a *Agent) readClaims(ctx context.Context, ef ReadClaims) Event {
	ev := ClaimsRead{Name: ef.Name, Run: ef.Run, Ask: ef.Ask}
	for _, src := range observe.AddressSources {
		if !ef.Ask.of(src) {
			continue
		}
		began := a.p.Now()
		claims, err := a.p.Hypervisor.Claims(ctx, ef.UUID, src)
		if err != nil {
			kept := src == observe.FromAgent && a.p.Now().Sub(began) >= silentAfter
			libvirts := errors.Is(err, observe.ErrBusy) || observe.ClassOf(err) == observe.Disconnected
			ev.Silent = ev.Silent || kept && !libvirts
			a.p.Log.Debug("addresses not read", "proxy", ef.Name, "source", src, "error", err)
			if observe.ClassOf(err) == observe.Disconnected {
				break
			}
			continue
		}
		claims = observe.Answers(claims, strings.Fields(ef.MACs))
		ev.Answers = append(ev.Answers, Answer{Source: src, Claims: claims})
		if len(claims) > 0 {
			break
		}
	}
	return ev
}

func actionKey(a plan.Action) string {
	if a.Kind == plan.FetchImage {
		return a.Image.SHA256
	}
	return a.Name
}

// took is how long an action was under way.
func (a *Agent) took(act plan.Action) time.Duration {
	return a.p.Now().Sub(a.begun[actionKey(act)]).Round(time.Millisecond)
}
