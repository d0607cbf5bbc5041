package plan

import (
	"fmt"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// unwanted: no source lists the proxy. It is removed once the source it came
// from has missed it twice (invariant 2); whatever of it is already gone is no
// obstacle (invariant 5).
func (p *planner) unwanted(s *subject) bool {
	if s.want != nil {
		return false
	}
	switch {
	case !p.exists(s) && s.dom == nil:
		s.gone = true
		return true
	case s.mem.Delete && p.Desired.AllSeen():
	case !s.away:
		s.mem.Stop = nil
		s.verdict = s.waiting
		return true
	case p.held(s, HoldDeletion):
		s.mem.Stop = nil
		return true
	}
	if p.noteRemovalIf(s); p.Stored != nil && !p.Stored[s.name].Leaving {
		s.verdict = verdict{phase: status.PhaseRemoving, synced: status.False, reason: string(status.PhaseRemoving),
			message: "it is removed once that is written to the state directory"}
		return true
	}
	const reason = "its spec is gone"
	s.verdict = verdict{phase: status.PhaseRemoving, synced: status.False, reason: string(status.PhaseRemoving)}
	switch {
	case s.dom != nil && !s.off():
		p.stop(s, status.PhaseRemoving, reason)
	case s.dom != nil:
		s.mem.Stop = nil
		p.step(s, Action{Kind: Undefine, Reason: reason})
	default:
		p.discardAll(s, reason)
	}
	return true
}

// noteRemovalIf counts a deletion when it begins, unless an operator has looked
// at it.
func (p *planner) noteRemovalIf(s *subject) {
	if !s.mem.Leaving && !s.mem.Delete && s.mem.Released.Kind != HoldDeletion && s.away {
		p.noteRemoval(s)
	}
	s.mem.Leaving = true
}

func (p *planner) noteRemoval(s *subject) {
	m := &p.res.Memory
	m.Removed = append(slices.Clone(m.Removed), Removal{Name: s.name, Origin: p.origin(s), At: p.Now})
}

// discardAll removes the incarnations one after the other, then forgets.
func (p *planner) discardAll(s *subject, reason string) {
	var left []string
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			left = append(left, inc.Instance)
		}
	}
	p.step(s, Action{Kind: Discard, Instance: left[0], Last: len(left) == 1, Reason: reason})
}

// origin is the source the proxy came from: as it is remembered, or by its
// record, which is brought up to date when another source lists it, or by its
// claim.
func (p *planner) origin(s *subject) string {
	if s.mem.Origin != "" {
		return s.mem.Origin
	}
	for i := len(s.incs) - 1; i >= 0; i-- {
		if p.oursIncarnation(s.incs[i]) {
			return s.incs[i].Record.Origin
		}
	}
	if s.dom != nil && s.dom.Owner != nil {
		return s.dom.Owner.Origin
	}
	return ""
}

// confirm finds out whether the absence of a spec is certain: the source of
// origin synced without error and missed the name twice, DeletionDelay apart,
// and every configured source was read once.
func (p *planner) confirm(s *subject) {
	if s.want != nil {
		return
	}
	origin := p.origin(s)
	src, configured := p.Desired.Source(origin)
	wait := func(reason, format string, a ...any) {
		s.waiting = verdict{phase: status.PhaseWaiting, synced: status.Unknown, reason: reason, message: fmt.Sprintf(format, a...)}
	}
	switch {
	case !configured:
		wait("Orphaned", "it came from source %q, which is not configured; it is left running; to remove it: egress-hostagent delete %s", origin, s.name)
		return
	case !src.Synced || !p.Desired.AllSeen():
		wait("SourceInDoubt", "no spec is listed, but the source is in doubt, so nothing is removed: %s", src.Problem)
		return
	case s.mem.Absent == nil:
		s.mem.Absent = &Absence{Seq: src.Seq, Since: p.Now}
	}
	due := s.mem.Absent.Since.Add(p.Policy.DeletionDelay)
	if p.Now.Before(due) {
		p.wake(due)
		wait("RemovalPending", "its spec is gone; removed at %s unless it comes back", due.UTC().Format("15:04:05Z"))
		return
	}
	if src.Seq == s.mem.Absent.Seq || src.Read.Before(due) {
		p.res.Rescan = true
		wait("RemovalPending", "its spec is gone; reading the source once more")
		return
	}
	s.away = true
	if s.mem.Held.Kind == HoldChange {
		s.mem.Held = Hold{}
	}
}
