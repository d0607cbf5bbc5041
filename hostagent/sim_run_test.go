package hostagent

import (
	"slices"
	"time"
)

// nextHint takes the hypervisor's next event out of its queue.
func (s *storm) nextHint() bool {
	select {
	case ev := <-s.hv.Events():
		s.hints = append(s.hints, Hint{ev})
		return true
	default:
		return false
	}
}

// hint delivers one of the hypervisor's events, as a rule the oldest.
func (s *storm) hint() bool {
	for s.nextHint() {
	}
	if len(s.hints) == 0 {
		return false
	}
	i := 0
	if s.one(5) {
		i = s.rng.IntN(len(s.hints))
	}
	ev := s.hints[i]
	s.hints = slices.Delete(s.hints, i, i+1)
	s.step(0, ev)
	return true
}

// deliver hands over one answer that is due.
func (s *storm) deliver() bool {
	var due []int
	for i, a := range s.late {
		if !s.now.Before(a.due) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return false
	}
	i := due[s.rng.IntN(len(due))]
	a := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	if a.what != "" {
		s.say("  %s", a.what)
	}
	ev, read := a.ev(), a.read
	if read == 0 {
		s.reads++
		read = s.reads
	}
	if done, ok := ev.(ActionDone); ok {
		s.agent.logDone(done)
	}
	s.step(read, ev)
	return true
}

// work does n pending things in random order.
func (s *storm) work(n int) {
	for range n {
		switch {
		case s.dead:
			return
		case s.one(3) && s.hint():
		case s.one(2) && s.deliver():
		case len(s.queue) > 0:
			i := s.rng.IntN(len(s.queue))
			ef := s.queue[i]
			s.queue = slices.Delete(s.queue, i, i+1)
			s.exec(ef)
		case !s.hint() && !s.deliver():
			return
		}
	}
}

// quiet does what is pending, in order, until nothing is left.
func (s *storm) quiet() {
	for range 20000 {
		if s.dead || s.t.Failed() || !s.oneThing() {
			return
		}
	}
	s.blame("promise 15: it does not settle; last actions %v", s.ran[max(0, len(s.ran)-10):])
}

// oneThing does the first of what is pending, and tells whether there was any.
func (s *storm) oneThing() bool {
	switch {
	case s.hint(), s.deliver():
	case len(s.queue) > 0:
		ef := s.queue[0]
		s.queue = s.queue[1:]
		s.exec(ef)
	default:
		return false
	}
	return true
}

// let has time go by, in steps that the core asks for, with all that happens
// meanwhile.
func (s *storm) let(d time.Duration) {
	end := s.now.Add(d)
	for !s.t.Failed() {
		s.quiet()
		next := s.agent.core.Wake()
		if next.After(end) || s.dead {
			s.now = end
			return
		}
		s.now = next.Add(time.Millisecond)
		s.step(0, Tick{})
	}
}
