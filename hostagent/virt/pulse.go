package virt

import (
	"context"
	"time"
)

// missedMost is how many questions may stay without an answer before the link
// is given up.
const missedMost = 4

// pulse asks libvirt for a sign of life, for a daemon that is stopped or hangs
// and whose sockets stay open.
//
// libvirt's own keepalive is not used: when it gives a connection up, a client
// library before 10.3 with several calls waiting on that connection fires an
// event source that has gone already (CVE-2024-4418), which has ended the
// process in this project's tests with Debian 12's. It also leaves those calls
// waiting. The daemon's keepalives are answered by libvirt's event loop all the
// same.
type pulse struct {
	ask    func(*link) bool // a question that libvirtd answers itself, with a worker kept free for such
	asked  *link            // whose answer is awaited
	back   chan *link       // answers
	missed int              // beats in a row without one
}

func newPulse() *pulse {
	return &pulse{
		ask: func(k *link) bool {
			_, err := k.conn.GetLibVersion() // high priority in libvirt's remote protocol
			return signOfLife(err, k.alive)
		},
		back: make(chan *link, 1+replacedMost),
	}
}

// signOfLife tells whether libvirt answered: a refusal is an answer too, but not
// the error of a connection that broke.
func signOfLife(err error, alive func() bool) bool { return err == nil || alive() }

// beat asks, unless that link still owes an answer; false when too many are
// missing. It counts beats and not time, so that a process that was stopped
// itself finds no fault with libvirt.
func (p *pulse) beat(ctx context.Context, k *link) bool {
	if p.asked != nil {
		p.missed++
	}
	if p.asked == k || !k.enter() {
		return p.missed < missedMost
	}
	p.asked = k
	go func() {
		alive := p.ask(k)
		k.leave()
		if !alive {
			return // a lost link reports itself
		}
		select {
		case p.back <- k:
		case <-ctx.Done():
		}
	}()
	return p.missed < missedMost
}

// answered takes an answer; one of a link that was replaced is a sign of life
// just as well.
func (p *pulse) answered(k *link) {
	p.missed = 0
	if p.asked == k {
		p.asked = nil
	}
}

// watch waits until the session is lost or ctx ends and tells why. Each beat
// also looks at the connections without a round trip, for a loss whose close
// callback was missed.
func (s *session) watch(ctx context.Context, p *pulse, every time.Duration) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stopping
		case reason := <-s.lost:
			return reason
		case k := <-p.back:
			p.answered(k)
		case <-tick.C:
			for _, l := range s.lanes {
				if l.now.Load().link.dead() {
					return "a connection is dead"
				}
			}
			if !p.beat(ctx, s.lanes[reads].now.Load().link) {
				return "libvirt does not answer; check that the daemon is not stopped"
			}
		}
	}
}
