package hostagent

import (
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
)

// deletion is a deletion that has begun, and that no operator has looked at.
type deletion struct {
	origin string
	at     time.Time
}

// The rules of invariant 6, once more.
const (
	simWindow = 9 * time.Minute // of deletions; a little less, for who is slow to begin
)

func most(some, all int) bool { return some > 1 && 2*some > all }

// checkRemoval checks a step towards the end of a proxy that no source lists.
func (s *storm) checkRemoval(a plan.Action) {
	switch a.Kind {
	case plan.Adopt:
		return // what it is about is decided once it is ours again
	case plan.Shutdown, plan.Destroy, plan.Undefine, plan.Discard:
	default:
		s.blame("promise 2: %s %s, which no source lists", a.Kind, a.Name)
		return
	}
	if a.Kind == plan.Shutdown || a.Kind == plan.Destroy {
		s.checkDrained(a)
	}
	if s.ordered[a.Name] || s.kept(a.Name).Delete {
		return
	}
	if !s.kept(a.Name).Leaving {
		s.blame("promise 6: %s %s before it is on disk that it goes", a.Kind, a.Name)
	}
	s.checkMissed(a)
	if s.skip[a.Name] {
		s.blame("promise 5: %s %s, whose spec said skip_cleanup", a.Kind, a.Name)
	}
	s.checkMass(a.Name)
}

// checkMissed: promise 2, the source that a proxy came from was read twice
// without it, and no source is in doubt.
func (s *storm) checkMissed(a plan.Action) {
	origin := s.shown(a.Name).Origin
	missed := s.misses[origin][a.Name]
	delay := s.agent.core.set.Policy.DeletionDelay
	switch src, ok := s.snaps[origin]; {
	case !ok || !src.Synced:
		s.blame("promise 2: %s %s, whose source %q is in doubt", a.Kind, a.Name, origin)
	case !s.allSeen():
		s.blame("promise 2: %s %s before all sources were read", a.Kind, a.Name)
	case len(missed) < 2:
		s.blame("promise 2: %s %s, which %d reads of %q did not list", a.Kind, a.Name, len(missed), origin)
	case missed[len(missed)-1].read.Before(missed[0].at.Add(delay)):
		s.blame("promise 2: %s %s too early", a.Kind, a.Name)
	}
}

// checkMass: promise 6, no mass of deletions that no operator has looked at.
func (s *storm) checkMass(name string) {
	if _, already := s.begun[name]; already {
		return
	}
	if _, released := s.released[plan.HoldDeletion][name]; released {
		return
	}
	if s.heldAway[name] {
		s.blame("promise 6: the deletion of %s, which was held and nobody released", name)
	}
	s.begun[name] = deletion{s.shown(name).Origin, s.now}
	going, all, from := 0, s.existing(), 0
	for other, d := range s.begun {
		if s.now.Sub(d.at) <= simWindow {
			going++
			all[other] = true
			if d.origin == s.begun[name].origin {
				from++
			}
		}
	}
	if most(going, len(all)) {
		s.blame("promise 6: the deletion of %s is number %d of %d within ten minutes", name, going, len(all))
	}
	src := s.snaps[s.begun[name].origin]
	if src.Synced && len(src.Entries) == 0 && from > 1 {
		s.blame("promise 6: the deletion of %s is number %d from a source that lists nothing any more", name, from)
	}
}

// existing are the names of which the agent sees something that is its own.
func (s *storm) existing() map[string]bool {
	out := map[string]bool{}
	obs := s.agent.core.obs
	for _, id := range s.ids {
		if d, there := obs.Domains[id.uuid]; there && d.Owner != nil && d.Owner.Host == testHost && d.Owner.Name == id.name && !s.buried(id.uuid) {
			out[id.name] = true
		}
		for _, i := range obs.Tree.Incarnations[id.name] {
			if i.Record != nil && i.Record.UUID == id.uuid && !i.Record.Abandoned && !s.buried(id.uuid) {
				out[id.name] = true
			}
		}
	}
	return out
}

// changed are the names that would be changed for something else than their own
// specs, and that no operator has released.
func (s *storm) changed() (names []string) {
	for name := range s.existing() {
		e, listed := s.told(name)
		o, _, claimed := s.claim(s.agent.core.uuidOf(name))
		if listed && e.Spec != nil && claimed && s.differs(o.Spec, e) && !e.Spec.Hold &&
			s.madeOwn[name] == e.Spec.Own && s.released[plan.HoldChange][name] != e.Hash.String() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkMassChange: promise 6, no mass of changes by the config.
func (s *storm) checkMassChange(a plan.Action, e source.Entry) {
	if s.held[a.Name] == e.Hash.String() {
		s.blame("promise 6: %s %s, which was held and nobody released", a.Kind, a.Name)
	}
	changed := s.changed()
	switch {
	case !slices.Contains(changed, a.Name):
	case len(s.snaps) < len(s.configured()):
		s.blame("promise 6: %s %s, a change by the config, before all sources were heard of", a.Kind, a.Name)
	case most(len(changed), len(s.existing())):
		s.blame("promise 6: %s %s, a change by the config of %v at once", a.Kind, a.Name, changed)
	}
}

// watchHolds notes which changes are shown as held.
func (s *storm) watchHolds() {
	for _, h := range s.agent.core.last.Holds {
		for _, name := range h.Proxies {
			if h.Kind == string(plan.HoldDeletion) && s.kept(name).Held.Kind == plan.HoldDeletion {
				s.heldAway[name] = true
			}
			if hash := s.agent.core.memory.Proxies[name].Held.For; h.Kind == string(plan.HoldChange) && s.kept(name).Held.For == hash {
				s.held[name] = hash
			}
		}
	}
	for name, hash := range s.held {
		if e, listed := s.told(name); listed && (e.Spec == nil || e.Hash.String() != hash || e.Spec.Own != s.madeOwn[name]) {
			delete(s.held, name)
		}
	}
}
