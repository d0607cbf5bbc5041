package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// rollout is how many proxies are down because the agent changes them, and
// which of them did not come back.
type rollout struct {
	down   int
	failed []string
}

func (p *planner) countDown(subjects []*subject) {
	for _, s := range subjects {
		d := &s.mem.Down
		switch {
		case d.Since.IsZero():
			continue
		case p.notComingBack(s):
			*d = Down{}
			continue
		case d.Hash != s.mem.Hash.String(): // another change: another try
			*d = Down{Since: p.Now, Hash: s.mem.Hash.String(), WasReady: d.WasReady}
		}
		p.rollout.down++
		if d.Failed != "" {
			p.rollout.failed = append(p.rollout.failed, s.name)
		}
	}
}

// notComingBack tells whether a proxy that is down is to stay so. That no source
// lists it says so only once they were all read.
func (p *planner) notComingBack(s *subject) bool {
	if s.want == nil {
		src, configured := p.Desired.Source(p.origin(s))
		return !configured || src.Synced && p.Desired.AllSeen()
	}
	return s.want.Spec == nil || s.want.Spec.Off
}

// mayTakeDown tells whether a proxy that runs may be taken down to change it,
// within the budget of the whole host. One that is down already, or is to be, is
// seen to without asking.
func (p *planner) mayTakeDown(s *subject) bool {
	if !s.running() || s.spec().Off {
		return true
	}
	if !s.mem.Down.Since.IsZero() {
		s.goesDown = true
		return p.downStored(s)
	}
	wait := func(reason, format string, a ...any) bool {
		s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: reason, message: fmt.Sprintf(format, a...), next: "wait for its turn"}
		return false
	}
	if grows := s.spec().Memory - s.mem.Memory; s.mem.Memory > 0 && grows > 0 && !p.fits(s, grows) {
		s.verdict.next = "change it once there is room; it runs on"
		return false
	}
	if len(p.rollout.failed) > 0 {
		return wait("RollOutStopped", "the roll-out has stopped at %s; correct that spec, or let it go on: egress-hostagent resume %s",
			strings.Join(p.rollout.failed, ", "), p.rollout.failed[0])
	}
	if p.rollout.down >= p.Policy.MaxUnavailable {
		reason := "RollOutWaiting"
		if s.dom.Owner.Base != s.spec().Image.SHA256 {
			reason = "BaseChanged"
		}
		return wait(reason, "%d of the host's proxies are down for a change already (policy.max_unavailable is %d)", p.rollout.down, p.Policy.MaxUnavailable)
	}
	p.rollout.down++
	s.goesDown = true
	s.mem.Down = Down{Since: p.Now, Hash: s.mem.Hash.String(), WasReady: s.mem.WasReady}
	return p.downStored(s)
}

// downStored tells whether it is on disk that the proxy goes down.
func (p *planner) downStored(s *subject) bool {
	if p.Stored == nil || p.Stored[s.name].Down == s.mem.Down {
		return true
	}
	s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: "RollOutWaiting",
		message: "it goes down for a change once that is written to the state directory", next: "power off"}
	return false
}

// backUp ends a proxy's being down: by success, or by what says that it will
// not come back.
func (p *planner) backUp(s *subject, cs []status.Condition) {
	d := &s.mem.Down
	if d.Since.IsZero() || s.mem.Paused || p.Memory.PausedAll {
		return
	}
	up := s.current() || !s.goesDown && d.Failed == "" // as its spec asks, or as before while that waits
	if up && s.mem.Stop == nil && serves(cs) {         // and no step is under way that powers it off
		*d = Down{}
		p.wake(p.Now) // it is the next one's turn
		return
	}
	deadline := d.Since.Add(p.Policy.RolloutWait)
	switch {
	case d.Failed != "":
	case s.verdict.reason == "ActionRefused":
		d.Failed = s.verdict.message
	case s.current() && s.mem.Starts.Short >= failedStarts:
		d.Failed = fmt.Sprintf("it went off %d times in a row soon after its start", s.mem.Starts.Short)
	case s.mem.Stop != nil && s.running(): // it has not even gone down
	case p.Now.Before(deadline):
		p.wake(deadline)
	case d.WasReady:
		d.Failed = "it was ready before the change and is not so " + p.Policy.RolloutWait.String() + " after it"
	default: // it was not ready before either, so that says nothing
		*d = Down{}
		p.wake(p.Now)
	}
}

// bootTime is how long a guest takes to touch most of its memory.
const bootTime = time.Minute

// failedStarts in a row mean that a changed proxy does not come back.
const failedStarts = 3

// serves tells whether all conditions but Synced and Ready hold.
func serves(cs []status.Condition) bool {
	for _, c := range cs {
		if c.Type != status.Synced && c.Type != status.Ready && c.Applies() && c.Status != status.True {
			return false
		}
	}
	return true
}

func (p *planner) rolloutCondition(subjects []*subject) status.Condition {
	c := status.Condition{Type: status.RollOut, Status: status.True, Reason: "NothingToDo"}
	var going, stopped []string
	for _, s := range subjects {
		switch d := s.mem.Down; {
		case s.gone || d.Since.IsZero():
		case d.Failed != "":
			stopped = append(stopped, s.name+": "+d.Failed)
		default:
			going = append(going, s.name)
		}
	}
	if len(going) > 0 {
		c.Reason, c.Message = "UnderWay", some(going)
	}
	if len(stopped) > 0 {
		c.Status, c.Reason = status.False, "Stopped"
		c.Message = strings.Join(stopped, "; ") + "; nothing else is changed until its spec is, or: egress-hostagent resume NAME"
	}
	return c
}

// fits tells whether the host has memory for one more start, or for what a
// running proxy is to grow by. What is known may be as old as the last look at
// the host, so what was started since counts as taken.
func (p *planner) fits(s *subject, need spec.Size) bool {
	m := p.Observed.Memory
	if m.At.IsZero() {
		return true
	}
	taken := uint64(p.promised) + uint64(p.Policy.MemoryReserve)
	if taken+uint64(need) <= m.Available {
		return true
	}
	p.res.Recheck = true
	s.verdict = verdict{phase: status.PhaseWaiting, synced: status.False, reason: "NoCapacity",
		message: fmt.Sprintf("it needs %d MiB of memory; the host has %d MiB available, of which %d MiB are kept back (limits.memory_reserve) and %d MiB are promised to proxies that have just started",
			need>>20, m.Available>>20, p.Policy.MemoryReserve>>20, p.promised>>20),
		next: "start once there is room; stop something, or lower its memory"}
	return false
}

// promise counts the memory of what has started since the host was looked at,
// and a little before: guests take it bit by bit.
func (p *planner) promise(subjects []*subject) {
	since := p.Observed.Memory.At.Add(-bootTime)
	for _, s := range subjects {
		if s.mem.Starts.Last.After(since) && s.mem.Last != nil || p.Observed.Busy[s.name] == Start && s.mem.Last != nil {
			p.promised += s.mem.Last.Memory
		}
	}
}

// roomForOverlay tells whether the image tree has room for a new guest.
func (p *planner) roomForOverlay(s *subject) bool {
	if p.roomy() {
		return true
	}
	p.res.Recheck = true
	s.verdict.phase, s.verdict.synced, s.verdict.reason = status.PhaseWaiting, status.False, "NoCapacity"
	s.verdict.message = fmt.Sprintf("image tree %s has %d MiB free, of which %d MiB are kept back (limits.disk_reserve)",
		p.Observed.Tree.Root, p.Observed.Tree.Free>>20, p.Policy.DiskReserve>>20)
	s.verdict.next = "make the guest once there is room"
	return false
}
