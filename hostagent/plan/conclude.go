package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// settleConflicts works out every proxy's addresses and finds those that two
// proxies claim: then neither is believed (invariant 17), but for a stale claim,
// which takes nothing from a fresh one and does not keep its own proxy from
// another address.
func (p *planner) settleConflicts(subjects []*subject) {
	type claimant struct {
		*subject
		stale bool
	}
	holder := map[netip.Addr]claimant{}
	for _, s := range subjects {
		seen := p.Observed.Sightings[s.name]
		if s.dom == nil || s.off() || len(seen) == 0 {
			continue
		}
		since := p.Now.Add(-p.Policy.AddressStale)
		s.addresses, s.rejected = observe.Filter(seen, p.nics(s), p.Policy.AllowedCIDRs, p.Observed.HostAddrs, since)
		for _, a := range s.addresses {
			h, taken := holder[a.Addr]
			if taken && h.stale == a.Stale {
				h.conflict = fmt.Sprintf("%s is claimed by proxy %s too", a.Addr, s.name)
				s.conflict = fmt.Sprintf("%s is claimed by proxy %s too", a.Addr, h.name)
			}
			if !taken || h.stale && !a.Stale {
				holder[a.Addr] = claimant{s, a.Stale}
			}
		}
	}
	for _, s := range subjects {
		s.giveUp(func(a observe.Address) (other string) {
			if h := holder[a.Addr]; a.Stale && !h.stale && h.subject != s {
				return h.name
			}
			return ""
		})
		s.addresses, s.mem.Primary = observe.Prefer(s.addresses, s.mem.Primary)
	}
}

// giveUp drops the addresses that another proxy holds by now. The last one is
// kept, in conflict, so that it is said why the proxy has none.
func (s *subject) giveUp(heldBy func(observe.Address) string) {
	var keep []observe.Address
	conflict := ""
	for _, a := range s.addresses {
		if other := heldBy(a); other != "" {
			conflict = fmt.Sprintf("%s is claimed by proxy %s too", a.Addr, other)
			continue
		}
		keep = append(keep, a)
	}
	switch {
	case conflict == "":
	case len(keep) == 0:
		s.conflict = conflict
	default:
		s.addresses = keep
	}
}

// conclude writes the proxy's status and memory.
func (p *planner) conclude(s *subject) {
	if s.gone {
		return
	}
	out := status.Proxy{
		Name: s.name, Phase: s.verdict.phase, UUID: s.uuid, Instance: s.instance(), Next: s.verdict.next,
		Origin: p.origin(s),
	}
	if s.want != nil {
		out.Origin, out.File, out.Warnings = s.want.Origin, s.want.File, s.want.Warnings
		out.SpecHash = s.want.Hash.String()
	}
	if sp := s.mem.Last; sp != nil {
		out.Labels = sp.Labels
	}
	out.Leaving, out.Starts = s.mem.Stop != nil, s.mem.Begun
	if s.verdict.reason == "Orphaned" {
		p.res.Counts.Orphaned++
	}
	for _, a := range s.addresses {
		out.Addresses = append(out.Addresses, status.Address{Address: a.Addr, Source: string(a.Source), Seen: a.Seen, Stale: a.Stale})
	}
	if t, ok := s.target(); ok {
		out.URL = s.scheme() + "://" + t.String()
	}
	cs := []status.Condition{
		{Type: status.Synced, Status: s.verdict.synced, Reason: s.verdict.reason, Message: s.verdict.message},
		p.runningCondition(s), p.addressedCondition(s),
	}
	if p.Policy.Probe {
		reachable := p.reachableCondition(s)
		cs = append(cs, reachable)
		if reachable.Status == status.True {
			out.Egress = p.Observed.Probes[s.name].Egress
		}
	}
	cs = append(cs, ready(cs))
	changed := len(p.res.Changes)
	out.Conditions = p.since(s.name, s.mem.Conditions, cs)
	s.mem.Conditions = out.Conditions
	out.Phase = p.phase(s, out)
	for i := changed; i < len(p.res.Changes); i++ {
		p.res.Changes[i].Phase = out.Phase
	}
	if s.running() && s.mem.Begun == 0 && p.Observed.Busy[s.name] != Start {
		s.mem.Begun = 1 // by whomever: it is not one more for this host
	}
	p.backUp(s, out.Conditions)
	if !p.cannotSee(s) {
		s.mem.WasReady = s.mem.WasReady && s.running() || out.IsReady()
	}
	p.res.Memory.Proxies[s.name] = s.mem
	p.res.Proxies = append(p.res.Proxies, out)
}

// phase refines a settled proxy's phase by its conditions.
func (p *planner) phase(s *subject, out status.Proxy) status.Phase {
	if out.Phase != status.PhaseStarting {
		return out.Phase
	}
	if out.IsReady() {
		return status.PhaseReady
	}
	if c, _ := out.Condition(status.Synced); s.mem.WasReady || c.Status == status.False || s.dom != nil && s.dom.Power == observe.PowerPaused {
		return status.PhaseDegraded
	}
	return status.PhaseStarting
}

func (p *planner) runningCondition(s *subject) status.Condition {
	c := status.Condition{Type: status.Running, Status: status.False}
	_, unsure := p.Observed.Unsure[s.uuid]
	switch {
	case !p.Observed.Libvirt.Synced || unsure:
		c.Status, c.Reason, c.Message = status.Unknown, "CannotSee", s.verdict.message
	case s.dom == nil:
		c.Reason = "NoDomain"
	case s.dom.Power == observe.PowerPaused && s.dom.Stalled:
		c.Reason, c.Message = p.stallReason(), p.stallMessage()
	case s.dom.Power == observe.PowerPaused:
		c.Reason, c.Message = "Paused", "the domain is paused; the agent leaves it so"
	case s.dom.Power != observe.PowerRunning:
		c.Reason = "PoweredOff"
	default:
		c.Status, c.Reason = status.True, "Running"
	}
	return c
}

func (p *planner) addressedCondition(s *subject) status.Condition {
	c := status.Condition{Type: status.Addressed, Status: status.False}
	switch {
	case !p.Observed.Libvirt.Synced:
		c.Status, c.Reason = status.Unknown, "CannotSee"
	case !s.running():
		c.Reason = "NotRunning"
	case s.conflict != "":
		c.Reason, c.Message = "AddressConflict", s.conflict
	case len(s.addresses) > 0:
		c.Status, c.Reason = status.True, "From"+sourceWord(s.addresses[0].Source)
		c.Message = s.addresses[0].Addr.String()
	case len(s.rejected) > 0:
		c.Reason, c.Message = "AddressNotBelieved", rejections(s.rejected)
	default:
		c.Reason, c.Message = "NoAddressYet", "neither guest agent nor lease nor ARP table gives one"
	}
	return c
}

// rejectedShown bounds what a guest can make the agent say.
const rejectedShown = 3

func rejections(all []observe.Rejected) string {
	var why []string
	for _, r := range all[:min(len(all), rejectedShown)] {
		why = append(why, r.Addr.String()+" "+r.Why)
	}
	if more := len(all) - rejectedShown; more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(why, "; ")
}

func sourceWord(s observe.AddressSource) string {
	switch s {
	case observe.FromAgent:
		return "GuestAgent"
	case observe.FromLease:
		return "Lease"
	default:
		return "ARP"
	}
}

func (p *planner) reachableCondition(s *subject) status.Condition {
	c := status.Condition{Type: status.Reachable, Status: status.Unknown, Reason: "NotProbed"}
	pr, probed := p.Observed.Probes[s.name]
	if old := pr.At.Add(p.Policy.ProbeStale + time.Millisecond); probed && p.Now.Before(old) {
		p.wake(old) // yesterday's success is never shown as today's
	}
	t, ok := s.target()
	switch {
	case !s.running() || !ok:
		c.Message = "there is no address to probe"
	case s.direct() != "":
		c.Reason = status.NoWayFromHost
		c.Message = fmt.Sprintf("its primary address %s is on a direct NIC (macvtap on %s), over which the host and its guests do not reach each other: it is not probed, and is Ready without", t.Addr(), s.direct())
	case !probed || pr.Target != t:
		c.Message = "the first probe has not ended"
	case p.Now.Sub(pr.At) > p.Policy.ProbeStale:
		c.Reason, c.Message = "ProbeStale", "the last probe was at "+pr.At.UTC().Format(time.RFC3339)
	case pr.OK:
		c.Status, c.Reason = status.True, "Answered"
		c.Message = strings.TrimSpace(fmt.Sprintf("in %d ms %s", pr.Latency.Milliseconds(), pr.Detail))
	case pr.Void:
		c.Reason, c.Message = pr.Reason, pr.Detail
	default:
		c.Status, c.Reason, c.Message = status.False, pr.Reason, pr.Detail
	}
	return c
}

// ready is the conjunction of the other conditions; it names the first that
// does not hold.
func ready(cs []status.Condition) status.Condition {
	r := status.Condition{Type: status.Ready, Status: status.True, Reason: "Ready"}
	for _, c := range cs {
		if c.Status == status.True || !c.Applies() {
			continue
		}
		if r.Status == status.True || r.Status == status.Unknown && c.Status == status.False {
			r.Status, r.Reason, r.Message = c.Status, c.Type+c.Reason, c.Message
		}
	}
	return r
}

// since carries over when each condition took its present status, and notes
// those that changed.
func (p *planner) since(name string, old, cs []status.Condition) []status.Condition {
	for i := range cs {
		cs[i].Since = p.Now
		same := false
		for _, o := range old {
			if o.Type == cs[i].Type && o.Status == cs[i].Status {
				cs[i].Since, same = o.Since, o.Reason == cs[i].Reason && (o.Type != status.NothingHeld || o.Message == cs[i].Message)
			}
		}
		if !same {
			p.res.Changes = append(p.res.Changes, Change{Name: name, Condition: cs[i]})
		}
	}
	return cs
}
