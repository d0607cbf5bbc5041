package virt

import (
	"context"
	"time"
)

// lane is a kind of call. Each lane has its own connection, because the daemon
// serves at most five requests of a connection at once (max_client_requests):
// hung agents must not keep reads and mutations from it.
type lane int

const (
	reads   lane = iota // and events
	writes              // what changes something
	agents              // what a guest agent answers
	laneEnd             // how many there are
)

// laneSlots is how many calls of a lane run at once, below the daemon's limit.
var laneSlots = [laneEnd]int{reads: 4, writes: 4, agents: 3}

// aliveEvery is how often the connections are looked at without a round trip,
// for a loss whose close callback was missed.
const aliveEvery = 5 * time.Second

// session is the link while it is up.
type session struct {
	links []*link
	lanes [laneEnd]struct {
		link  *link
		slots chan struct{}
	}
	lost chan string   // the first reason to give it up
	done chan struct{} // closed when it was given up
}

// report says that the link is lost. It never blocks: libvirt's threads call it
// with libvirt's locks held.
func (s *session) report(reason string) {
	select {
	case s.lost <- reason:
	default:
	}
}

// watch waits until the session is lost or ctx ends and tells why.
func (s *session) watch(ctx context.Context) string {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stopping
		case reason := <-s.lost:
			return reason
		case <-tick.C:
			for _, k := range s.links {
				if !k.alive() {
					return "a connection is dead"
				}
			}
		}
	}
}

// retire ends the session: nothing new starts on it, and each connection is
// closed when its last call has come back.
func (s *session) retire() {
	close(s.done)
	for _, k := range s.links {
		k.retire()
	}
}
