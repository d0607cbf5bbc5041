package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// removalWindow is for how long a deletion counts towards a mass deletion.
const removalWindow = 10 * time.Minute

// massive tells whether some of all is what must not happen by mistake
// (invariant 6): more than half, and more than one. One proxy alone is never a
// mass, or the only proxy of a host could not be taken away by its file.
func massive(some, all int) bool { return some > 1 && 2*some > all }

// hold finds the changes that are too many at once, and keeps them held until
// an operator releases them.
func (p *planner) hold(subjects []*subject) {
	p.forgetRemovals()
	p.holdDeletions(subjects)
	p.holdChanges(subjects)
	p.res.Holds = p.showHolds(subjects)
}

func (p *planner) forgetRemovals() {
	p.res.Memory.Removed = slices.DeleteFunc(slices.Clone(p.res.Memory.Removed), func(r Removal) bool {
		return p.Now.Sub(r.At) > removalWindow
	})
	for _, r := range p.res.Memory.Removed {
		p.wake(r.At.Add(removalWindow + time.Millisecond))
	}
}

// holdDeletions holds the deletion of more than half of the proxies within the
// window, and of all that a source had.
func (p *planner) holdDeletions(subjects []*subject) {
	all, going := map[string]bool{}, map[string]bool{}
	emptied := map[string]map[string]bool{} // by the source that lists nothing any more
	for _, r := range p.res.Memory.Removed {
		all[r.Name], going[r.Name] = true, true
		p.emptied(emptied, r.Origin, r.Name)
	}
	for _, s := range subjects {
		if p.exists(s) {
			all[s.name] = true
		}
		if s.deletable() || s.mem.Absent != nil { // or may be so soon
			going[s.name] = true
			p.emptied(emptied, p.origin(s), s.name)
		}
	}
	for _, s := range subjects {
		if !s.deletable() || s.mem.Held.Kind == HoldDeletion {
			continue
		}
		if massive(len(going), len(all)) || len(emptied[p.origin(s)]) > 1 {
			s.mem.Held = Hold{Kind: HoldDeletion, Since: p.Now}
		}
	}
}

// emptied notes a name that goes from a source that lists nothing any more.
func (p *planner) emptied(by map[string]map[string]bool, origin, name string) {
	if src, ok := p.Desired.Source(origin); !ok || !src.Synced || len(src.Entries) > 0 {
		return
	}
	if by[origin] == nil {
		by[origin] = map[string]bool{}
	}
	by[origin][name] = true
}

// deletable tells whether the proxy's deletion is due and nobody has looked at
// it yet.
func (s *subject) deletable() bool {
	return s.away && !s.mem.Delete && !s.mem.Leaving && s.mem.Released.Kind != HoldDeletion
}

// exists tells whether there is something of the proxy that is ours.
func (p *planner) exists(s *subject) bool {
	if s.dom != nil {
		_, ours := p.ours(*s.dom)
		return ours
	}
	return slices.ContainsFunc(s.incs, p.oursIncarnation)
}

// holdChanges holds redefining or recreating more than half of the proxies for
// anything but their own specs.
func (p *planner) holdChanges(subjects []*subject) {
	all := 0
	var changed []*subject
	for _, s := range subjects {
		if !p.exists(s) {
			continue
		}
		all++
		if s.want != nil && s.want.Spec != nil && !s.want.Spec.Hold && s.dom != nil && !s.current() &&
			s.mem.Cause == CauseOther && s.mem.Released.Kind != HoldChange {
			changed = append(changed, s)
		}
	}
	if !massive(len(changed), all) {
		return
	}
	for _, s := range changed {
		if begun := !s.mem.Down.Since.IsZero() && (!s.running() || s.mem.Stop != nil); s.mem.Held.Kind != HoldChange && !begun {
			s.mem.Held = Hold{Kind: HoldChange, For: s.mem.Hash.String(), Since: p.Now}
		}
	}
}

// heardAll tells whether every source has said something since the agent
// started, and be it that it is in doubt.
func (p *planner) heardAll() bool {
	return !slices.ContainsFunc(p.Desired.Sources, func(s source.Snapshot) bool { return s.Read.IsZero() })
}

// held gives the proxy the verdict of a change that is held.
func (p *planner) held(s *subject, kind HoldKind) bool {
	if s.mem.Held.Kind != kind {
		return false
	}
	for _, h := range p.res.Holds {
		if h.Kind == string(kind) {
			s.verdict = verdict{phase: status.PhaseBlocked, synced: status.False, reason: "Held", message: h.Message,
				next: "wait for: egress-hostagent release " + h.Digest}
		}
	}
	return true
}

// showHolds gives what is held, one set for each kind of change.
func (p *planner) showHolds(subjects []*subject) []status.Hold {
	sets := map[HoldKind]*status.Hold{}
	lines := map[HoldKind][]string{}
	for _, s := range subjects {
		h := s.mem.Held
		if h.Kind == "" {
			continue
		}
		if sets[h.Kind] == nil {
			sets[h.Kind] = &status.Hold{Kind: string(h.Kind), Since: h.Since}
		}
		set := sets[h.Kind]
		set.Proxies = append(set.Proxies, s.name)
		lines[h.Kind] = append(lines[h.Kind], s.uuid+" "+h.For)
		if h.Since.Before(set.Since) {
			set.Since = h.Since
		}
	}
	var out []status.Hold
	for _, kind := range slices.Sorted(maps.Keys(sets)) {
		set := sets[kind]
		sum := sha256.Sum256([]byte(string(kind) + "\n" + strings.Join(lines[kind], "\n")))
		set.Digest = hex.EncodeToString(sum[:6])
		set.Message = holdMessage(kind, set)
		out = append(out, *set)
	}
	return out
}

func holdMessage(kind HoldKind, set *status.Hold) string {
	what, otherwise := "deletion", "put their specs back"
	if kind == HoldChange {
		what, otherwise = "change for something else than their own specs", "undo the edit of the config"
	}
	return fmt.Sprintf("the %s of %d proxies at once is held: %s; to let it go on: egress-hostagent release %s; otherwise %s",
		what, len(set.Proxies), some(set.Proxies), set.Digest, otherwise)
}

// some names at most ten.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (p *planner) heldCondition() status.Condition {
	c := status.Condition{Type: status.NothingHeld, Status: status.True, Reason: "NothingHeld"}
	var all []string
	for _, h := range p.res.Holds {
		c.Status, c.Reason = status.False, map[string]string{string(HoldDeletion): "MassDeletion", string(HoldChange): "MassChange"}[h.Kind]
		all = append(all, h.Message)
	}
	c.Message = strings.Join(all, "\n")
	return c
}
