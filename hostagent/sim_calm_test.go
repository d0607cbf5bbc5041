package hostagent

import (
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// calm ends the storm: nothing fails any more, people repair what only people
// can, and operators let go on what waits for them.
func (s *storm) calm() {
	s.say("calm")
	s.silence, s.meddling, s.fuse, s.refuse, s.probeOK, s.memory = 1<<30, 1<<30, -1, faultsLeft{}, true, 64<<30
	for _, m := range faulty {
		s.hv.Fail(m, 0, nil)
		s.hv.FailAfter(m, 0, nil)
	}
	s.hv.ShortList(0)
	if s.linkDown {
		s.link("")
	}
	s.calmTree()
	s.calmDomains()
	for _, k := range s.desks {
		k.inDoubt = false
		for name, d := range k.docs {
			d.broken = false
			k.docs[name] = d
		}
	}
	for i := range s.late {
		s.late[i].due = s.now
	}
	if s.dead || s.hostID != testHost {
		s.hostID = testHost
		s.boot()
	}
	for range 12 {
		for range 5 {
			s.readSources()
			s.let(time.Minute)
		}
		s.operate()
		if s.t.Failed() || s.done() {
			break
		}
	}
	s.readSources()
	grace := s.agent.core.set.Policy.ImageGrace
	s.let(max(0, s.agent.core.memory.Collect.Next.Sub(s.now)) + 3*grace + 5*time.Minute) // what stands on what goes first
}

// wrecked tells whether a proxy's guest has lost what only a new one has.
func (s *storm) wrecked(p status.Proxy) bool {
	instance := p.Instance
	if instance == "" { // its domain is lost too
		instance = s.about[p.UUID].instance
	}
	if instance == "" || p.Phase == status.PhaseReady || p.Phase == status.PhaseOff {
		return false
	}
	return !slices.ContainsFunc(s.tree.incs[p.Name], func(i observe.Incarnation) bool {
		return i.Instance == instance && i.Record != nil && i.Seed
	})
}

// undefined tells whether a proxy's domain is not there, or has lost its
// definition.
func (s *storm) undefined(p status.Proxy) bool {
	d, there := s.hv.Domain(p.UUID)
	return !there || !d.Persistent
}

// done tells whether the status says that there is nothing left to do.
func (s *storm) done() bool {
	for _, c := range s.agent.core.last.Host {
		if c.Status != status.True {
			return false
		}
	}
	return !slices.ContainsFunc(s.agent.core.last.Proxies, func(p status.Proxy) bool {
		c, _ := p.Condition(status.Synced)
		if d, _ := s.hv.Domain(p.UUID); d.Power == observe.PowerPaused {
			return true
		}
		return p.Phase != status.PhaseReady && p.Phase != status.PhaseOff && (c.Reason != "ChangePending" || s.undefined(p)) && c.Reason != "Orphaned"
	})
}

func (s *storm) calmTree() {
	if s.tree.marker == observe.MarkerUnreadable || s.tree.marker == observe.MarkerAbsent && s.treeKnown() {
		s.tree.marker = observe.MarkerOK
	}
	s.tree.away, s.tree.free = false, roomy
	s.hv.FreeDisk()
	clear(s.tree.broken)
}

// calmDomains makes guests behave, and admins take back what only they can.
func (s *storm) calmDomains() {
	clear(s.fragile)
	for _, name := range simNames {
		s.freeName(name)
	}
	for _, id := range s.ids {
		d, there := s.hv.Domain(id.uuid)
		if !there {
			continue
		}
		s.hv.IgnoreShutdown(id.uuid, false)
		s.hv.SetClaims(id.uuid, observe.FromAgent)
		s.hv.SetAgent(id.uuid, false)
		if d.Power == observe.PowerPaused {
			s.hv.AdminResume(id.uuid)
		}
		o, err := domxml.DecodeOwnership(d.Metadata)
		if err == nil && o.Host != testHost {
			s.hv.AdminSetMetadata(id.uuid, domxml.Namespace, "")
		}
		if (err != nil || o.Host != testHost) && !s.proven(id) && !s.buried(id.uuid) {
			s.say("admin removes %s, which nothing proves to be a proxy's", d.Name)
			s.hv.AdminDestroy(id.uuid)
			if d.Persistent {
				s.hv.AdminUndefine(id.uuid)
			}
		}
	}
}

// proven tells whether a record says whose a domain is, which itself does not.
func (s *storm) proven(id uuidNames) bool {
	return slices.ContainsFunc(s.tree.incs[id.name], func(i observe.Incarnation) bool {
		return i.Record != nil && i.Record.UUID == id.uuid && i.Instance == s.about[id.uuid].instance
	})
}

// operate has an operator do what the status asks for.
func (s *storm) operate() {
	if s.dead {
		return
	}
	for _, name := range simNames {
		s.freeName(name)
	}
	for _, id := range s.ids { // one that was saved while it was paused still is when it starts
		if d, there := s.hv.Domain(id.uuid); there && d.Power == observe.PowerPaused {
			s.hv.AdminResume(id.uuid)
		}
	}
	shown := s.agent.core.last
	for _, h := range shown.Holds {
		s.order(order.Order{Verb: order.Release, Digest: h.Digest})
		s.quiet()
	}
	s.order(order.Order{Verb: order.Resume, All: true})
	for _, p := range shown.Proxies {
		c, _ := p.Condition(status.Synced)
		if s.agent.core.memory.Proxies[p.Name].Paused || strings.Contains(c.Reason, "RollOut") || c.Reason == "ActionRefused" || s.agent.core.memory.Proxies[p.Name].Down != (plan.Down{}) {
			s.order(order.Order{Verb: order.Resume, Name: p.Name})
		}
		switch c.Reason {
		case "MetadataLost":
			s.order(order.Order{Verb: order.Adopt, Name: p.Name})
		}
		if s.wrecked(p) || c.Reason == "RecordMissing" || c.Reason == "ChangePending" && s.undefined(p) {
			s.order(order.Order{Verb: order.Recreate, Name: p.Name})
		}
		s.quiet()
	}
}
