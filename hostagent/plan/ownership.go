package plan

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// ofAnotherHost: everything here says that this host was known by another id.
// Nothing is made or changed before an operator has said which one counts.
func (p *planner) ofAnotherHost(s *subject) bool {
	if len(p.strange) == 0 {
		return false
	}
	s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "HostIDChanged", message: p.hostIDMessage(),
		next: "wait for: egress-hostagent adopt --all"}
	return true
}

func (p *planner) hostIDMessage() string {
	return fmt.Sprintf("VMs or image tree of this host carry the host id %s, the agent's is %s: if they are this host's, egress-hostagent adopt --all takes on their id; if not, remove them, or name another tree; nothing is changed before",
		some(p.strange), p.Policy.HostID)
}

// notOurs: invariant 4, a domain without our ownership is never changed.
func (p *planner) notOurs(s *subject) bool {
	block := func(reason, format string, a ...any) bool {
		s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: reason, message: fmt.Sprintf(format, a...)}
		return true
	}
	if s.dom == nil {
		s.mem.Adopt = false
		other, taken := p.byName[domxml.DomainName(s.name)]
		if !taken || s.want == nil {
			return false
		}
		if o := p.Observed.Domains[other].Owner; o != nil && o.Host != p.Policy.HostID {
			return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone; set id in [host] of the config to what it was", domxml.DomainName(s.name), o.Host, p.Policy.HostID)
		}
		if p.buried(other) {
			return block("Conflict", "%s", p.abandonedName(other, domxml.DomainName(s.name)))
		}
		return block("Conflict", "domain %s exists with UUID %s, which is not this proxy's; rename or remove it, or rename the spec", domxml.DomainName(s.name), other)
	}
	switch o := s.dom.Owner; {
	case o == nil && p.recorded(s) != "":
		block(reasonLost, "domain %s carries no ownership metadata (%s) although a record of it exists; it is left alone until: egress-hostagent adopt %s", s.dom.Name, orNone(s.dom.ClaimErr), s.name)
		if s.mem.Adopt && !s.mem.Paused && !p.Memory.PausedAll {
			p.step(s, Action{Kind: Adopt, Instance: p.recorded(s), Reason: "an operator ordered it"})
		}
		return true
	case o == nil:
		return block("Conflict", "domain %s has this proxy's UUID %s but is not ours (%s); it is left alone", s.dom.Name, s.uuid, orNone(s.dom.ClaimErr))
	case o.Host != p.Policy.HostID:
		return block("HostIDChanged", "domain %s belongs to host id %s, this host's is %s; it is left alone", s.dom.Name, o.Host, p.Policy.HostID)
	case o.Name != s.name:
		return block("Conflict", "domain %s says it is proxy %s; it is left alone", s.dom.Name, o.Name)
	}
	s.mem.Adopt = false
	return false
}

// newest is the newest complete incarnation that is ours.
func (p *planner) newest(s *subject) *observe.Incarnation {
	for i := len(s.incs) - 1; i >= 0; i-- {
		if p.oursIncarnation(s.incs[i]) && s.incs[i].Overlay {
			return &s.incs[i]
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "no claim"
	}
	return s
}

// recorded is the latest incarnation that a record says is ours.
func (p *planner) recorded(s *subject) (instance string) {
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			instance = inc.Instance
		}
	}
	return instance
}
