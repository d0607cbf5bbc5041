package virt

import "strings"

// kind is a kind of call. Each has its own connection, because the daemon
// serves at most five requests of a connection at once (max_client_requests):
// hung agents must not keep reads and mutations from it.
type kind int

const (
	reads   kind = iota // and events
	writes              // what changes something
	agents              // what a guest agent answers
	kindEnd             // how many there are
)

// String names a kind in messages.
func (k kind) String() string {
	return [...]string{"reads", "changes", "guest-agent calls"}[k]
}

// kindSlots is how many calls of a kind run at once, below the daemon's limit.
var kindSlots = [kindEnd]int{reads: 4, writes: 4, agents: 3}

// session is the link while it is up.
type session struct {
	lanes [kindEnd]*lane
	lost  chan string   // the first reason to give it up
	done  chan struct{} // closed when it was given up
}

func newSession() *session {
	return &session{lost: make(chan string, 1), done: make(chan struct{})}
}

// report says that the link is lost. It never blocks: libvirt's threads call it
// with libvirt's locks held.
func (s *session) report(reason string) {
	select {
	case s.lost <- reason:
	default:
	}
}

// retire ends the session: nothing new starts on it, and each connection is
// closed when its last call has come back.
func (s *session) retire() {
	close(s.done)
	for _, l := range s.lanes {
		if l != nil {
			l.retire()
		}
	}
}

// degraded says, for people, which calls do not work; empty when all do, or
// when there is no session at all.
func (s *session) degraded() string {
	if s == nil {
		return ""
	}
	var out []string
	for _, l := range s.lanes {
		if text := l.degraded(); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}
