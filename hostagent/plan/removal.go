package plan

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// unwanted: no source lists the proxy. It is removed once the source it came
// from has missed it twice (invariant 2); whatever of it is already gone is no
// obstacle (invariant 5).
func (p *planner) unwanted(s *subject) bool {
	if s.want != nil {
		return false
	}
	if !p.confirmed(s) {
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

// discardAll removes the incarnations one after the other, then forgets.
func (p *planner) discardAll(s *subject, reason string) {
	var left []string
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			left = append(left, inc.Instance)
		}
	}
	if len(left) == 0 {
		s.gone = true
		return
	}
	p.step(s, Action{Kind: Discard, Instance: left[0], Last: len(left) == 1, Reason: reason})
}

// origin is the source the proxy came from, by its claim or record.
func (p *planner) origin(s *subject) string {
	if s.dom != nil && s.dom.Owner != nil {
		return s.dom.Owner.Origin
	}
	for _, inc := range s.incs {
		if p.oursIncarnation(inc) {
			return inc.Record.Origin
		}
	}
	return ""
}

// confirmed tells whether the absence is certain: the source of origin synced
// without error and missed the name twice, DeletionDelay apart, and every
// configured source was read once.
func (p *planner) confirmed(s *subject) bool {
	origin := p.origin(s)
	src, configured := p.Desired.Source(origin)
	wait := func(reason, format string, a ...any) bool {
		s.verdict = verdict{phase: status.PhaseWaiting, synced: status.Unknown, reason: reason, message: fmt.Sprintf(format, a...)}
		return false
	}
	switch {
	case !configured:
		return wait("Orphaned", "it came from source %q, which is not configured; it is left running", origin)
	case !src.Synced || !p.Desired.AllSeen():
		return wait("SourceInDoubt", "no spec is listed, but the source is in doubt, so nothing is removed: %s", src.Problem)
	case s.mem.Absent == nil:
		s.mem.Absent = &Absence{Seq: src.Seq, Since: p.Now}
	}
	due := s.mem.Absent.Since.Add(p.Policy.DeletionDelay)
	if p.Now.Before(due) {
		p.wake(due)
		return wait("RemovalPending", "its spec is gone; removed at %s unless it comes back", due.UTC().Format("15:04:05Z"))
	}
	if src.Seq == s.mem.Absent.Seq || src.Read.Before(due) {
		p.res.Rescan = true
		return wait("RemovalPending", "its spec is gone; reading the source once more")
	}
	return true
}
