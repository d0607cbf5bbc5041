package plan

import (
	"fmt"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// resume lets a domain go on that libvirt paused because a write failed, once
// the tree has room; one that is paused again and again, ever later. They go
// one at a time, each on what is free after the one before. What an admin
// paused stays so.
func (p *planner) resume(s *subject) {
	if s.dom == nil || !s.dom.Stalled {
		return
	}
	wait := func(format string, a ...any) { s.verdict.next = fmt.Sprintf(format, a...) }
	if p.Observed.Measuring {
		wait("resume, once it is known how much room there is")
		return
	}
	if !p.roomy() {
		p.res.Recheck = true
		wait("resume once the image tree has %s free", p.Policy.DiskReserve)
		return
	}
	if r := s.mem.Resumes; !r.Last.IsZero() {
		if at := r.Last.Add(backoff(r.Short+3, s.name)); p.Now.Before(at) {
			wait("resume at %s", at.UTC().Format("15:04:05Z"))
			p.wake(at)
			return
		}
	}
	if p.resuming() {
		wait("resume after another proxy")
		return
	}
	p.step(s, Action{Kind: Resume, Reason: "the image tree has room"})
}

// resuming tells whether another proxy is about to go on.
func (p *planner) resuming() bool {
	for _, k := range p.Observed.Busy {
		if k == Resume {
			return true
		}
	}
	return slices.ContainsFunc(p.res.Actions, func(a Action) bool { return a.Kind == Resume })
}

// roomy tells whether a domain whose disk had no room can go on.
func (p *planner) roomy() bool {
	t := p.Observed.Tree
	return t.Marker == observe.MarkerOK && t.Free >= uint64(p.Policy.DiskReserve)
}

func (p *planner) stallReason() string {
	if p.roomy() {
		return "PausedIOError"
	}
	return "PausedNoSpace"
}

func (p *planner) stallMessage() string {
	const why = "libvirt paused it because a disk failed a write"
	if p.Observed.Tree.Marker != observe.MarkerOK {
		return why + "; how much room the image tree has is not known without it"
	}
	return fmt.Sprintf("%s; image tree %s has %d MiB free, it goes on from %s (limits.disk_reserve)",
		why, p.Observed.Tree.Root, p.Observed.Tree.Free>>20, p.Policy.DiskReserve)
}
