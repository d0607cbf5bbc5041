package hostagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// checkConverged checks that there is exactly what is wanted.
func (s *storm) checkConverged() {
	if s.dead {
		s.t.Error("the agent is dead")
		return
	}
	s.checkState()
	ours := 0
	for _, name := range simNames {
		ours += s.checkName(name)
	}
	for _, id := range s.ids {
		if _, there := s.hv.Domain(id.uuid); there && s.buried(id.uuid) {
			ours++
		}
	}
	var others int
	for uuid := range s.picture().domains {
		if s.who(uuid).name == "" {
			others++
		}
	}
	if n := len(s.picture().domains) - others; n != ours {
		s.blame("%d domains of proxies, %d expected:\n%s", n, ours, s.hv)
	}
	if c := s.agent.core.last.Counts; c.Managed+c.Abandoned != ours || c.Foreign != others {
		s.blame("promise 4: %d domains of proxies and %d of others are counted as %+v", ours, others, c)
	}
	if others < len(virttest.ForeignDomains()) {
		s.blame("promise 4: only %d domains of others are left", others)
	}
	s.checkTidy()
}

// wanted is what people want a name to be.
func (s *storm) wanted(name string) (d doc, listed bool) {
	for _, k := range s.configured() {
		if d, ok := k.docs[name]; ok {
			return d, true
		}
	}
	return d, false
}

// checkName checks all there is of a name, and gives how many domains it has.
func (s *storm) checkName(name string) int {
	uuid := s.agent.core.uuidOf(name)
	d, there := s.hv.Domain(uuid)
	o, _ := domxml.DecodeOwnership(d.Metadata)
	p := s.shown(name)
	doc, listed := s.wanted(name)
	var incs []string
	for _, i := range s.tree.incs[name] {
		if i.Record != nil && i.Record.UUID == uuid && !i.Record.Abandoned {
			incs = append(incs, i.Instance)
		}
	}
	orphan := p.Origin == source.OriginManifest && s.cfg.one
	if !listed && !orphan {
		if there || len(incs) > 0 || p.Name != "" {
			s.blame("%s is left although nobody lists it: domain %v, incarnations %v, %s", name, there, incs, brief(p))
		}
		return 0
	}
	if !there && (listed || !orphan) {
		s.blame("%s has no domain: %s", name, brief(p))
		return 0
	}
	if must := s.mustGo[uuid]; must != "" && must == o.Instance && listed {
		s.blame("%s still is on %s, which was to be made anew: %s", name, must, brief(p))
	}
	switch {
	case listed:
	case there: // an orphan, which is left as it is
		return 1
	default:
		return 0
	}
	s.checkListed(name, doc, d, o, p)
	if cur := slices.IndexFunc(s.tree.incs[name], func(i observe.Incarnation) bool { return i.Instance == o.Instance }); cur >= 0 && s.tree.incs[name][cur].Record != nil && len(incs) != 1 && p.Phase != status.PhaseWaiting {
		s.blame("%s has incarnations %v: %s", name, incs, brief(p))
	}
	return 1
}

func (s *storm) checkListed(name string, doc doc, d observe.RawDomain, o observe.Ownership, p status.Proxy) {
	sp := s.decode(name, doc)
	synced, _ := p.Condition(status.Synced)
	same := o.Spec == sp.Hash() || o.Spec.Version != sp.Hash().Version
	want, power := status.PhaseReady, observe.PowerRunning
	if doc.off {
		want, power = status.PhaseOff, observe.PowerOff
	}
	if doc.hold && !same {
		want = status.PhaseWaiting
		if d.Power == observe.PowerOff && s.seedGone(name, o.Instance) { // nobody can make the seed of before again
			power = observe.PowerOff
		}
	}
	if !same && !doc.hold || p.Phase != want || d.Power != power || d.Autostart == doc.off {
		s.blame("%s did not converge to %s %s: runs %+v, spec %s: %s", name, want, power, d, sp.Hash(), brief(p))
	}
	if xml, runs := s.hv.AdminXML(d.UUID); runs && o.Spec == sp.Hash() {
		if want := fmt.Sprintf(`<outbound average="%d">`, doc.rate); strings.Contains(xml, want) != (doc.rate > 0) || strings.Contains(xml, "<bandwidth>") != (doc.rate > 0) {
			s.blame("%s is to be limited to %d kB/s and runs on %s", name, doc.rate, xml)
		}
	}
	if want == status.PhaseWaiting && synced.Reason != "ChangePending" {
		s.blame("%s waits with its change, but says %s", name, brief(p))
	}
}

// seedGone tells whether an incarnation has lost its seed.
func (s *storm) seedGone(name, instance string) bool {
	return slices.ContainsFunc(s.tree.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance && !i.Seed })
}

// checkTidy checks that nothing lies about in the tree.
func (s *storm) checkTidy() {
	for _, name := range simNames {
		for _, i := range s.tree.incs[name] {
			if i.Record == nil && i.Problem == "" && !s.referred(name, i.Instance) {
				s.blame("stray files of %s %s are left", name, i.Instance)
			}
		}
	}
	for sha := range s.tree.bases {
		if sha != simImages[s.cfg.image].SHA256 && s.standsOnBase(sha) == "" && !s.standing(sha) {
			s.blame("base image %s is left", sha)
		}
	}
	for _, h := range s.agent.core.last.Host {
		if h.Status != status.True {
			s.blame("host: %+v", h)
		}
	}
}

// referred tells whether a domain that may be a proxy's, or is a copy of one,
// refers to an incarnation.
func (s *storm) referred(name, instance string) bool {
	for _, xml := range s.clones {
		if strings.Contains(xml, instance) {
			return true
		}
	}
	return slices.ContainsFunc(s.ids, func(id uuidNames) bool {
		d, _ := s.hv.Domain(id.uuid)
		xml, _ := s.hv.AdminXML(id.uuid)
		return id.name == name && (strings.Contains(d.Metadata, instance) || strings.Contains(xml, instance) || s.about[id.uuid].instance == instance && d.UUID != "")
	})
}

// standing tells whether any overlay stands on a base image.
func (s *storm) standing(sha string) bool {
	for _, base := range s.tree.stands {
		if base == sha {
			return true
		}
	}
	return false
}

// brief is what a proxy's status says.
func brief(p status.Proxy) string {
	c, _ := p.Condition(status.Synced)
	r, _ := p.Condition(status.Ready)
	return fmt.Sprintf("%s is %s, next %q, synced %s %s %s, ready %s %s", p.Name, p.Phase, p.Next, c.Status, c.Reason, c.Message, r.Reason, r.Message)
}
