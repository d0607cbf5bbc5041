package virt

import (
	"context"
	"sync/atomic"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// hintsHeld is how many events wait for the reader before some are dropped.
const hintsHeld = 1024

// mailbox carries events from libvirt's loop, which must never wait, to the
// reader. Hints that find it full are dropped and make one Overflow. The state
// of the link is a level: a reader that sleeps through several changes is told
// the last, and of the losses before it one.
type mailbox struct {
	hints    chan observe.Event
	overflow atomic.Bool
	link     atomic.Pointer[linkState]
	wake     chan struct{}
	out      chan observe.Event
}

// linkState is the state of the link, with the loss it followed.
type linkState struct {
	event observe.Event
	after *linkState
}

func newMailbox() *mailbox {
	return &mailbox{
		hints: make(chan observe.Event, hintsHeld),
		wake:  make(chan struct{}, 1),
		out:   make(chan observe.Event),
	}
}

// hint never blocks: it is called from libvirt's loop.
func (m *mailbox) hint(ev observe.Event) {
	select {
	case m.hints <- ev:
	default:
		m.overflowed()
	}
}

// overflowed makes one Overflow; like hint it never blocks.
func (m *mailbox) overflowed() {
	m.overflow.Store(true)
	m.poke()
}

// setLink is called by Run only.
func (m *mailbox) setLink(ev observe.Event) {
	next := &linkState{event: ev}
	if ev.Kind == observe.Connected && m.isLost() {
		next.after = m.link.Load()
	}
	m.link.Store(next)
	m.poke()
}

// isLost tells whether the reader is told, or about to be told, that the link
// is down.
func (m *mailbox) isLost() bool {
	link := m.link.Load()
	return link != nil && link.event.Kind == observe.LinkLost
}

func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// forward gives the reader one event after the other until ctx ends.
func (m *mailbox) forward(ctx context.Context) {
	var told *linkState
	for {
		ev, ok := m.urgent(&told)
		if !ok {
			select {
			case ev = <-m.hints:
			case <-m.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case m.out <- ev:
		case <-ctx.Done():
			return
		}
	}
}

// urgent gives what goes ahead of the hints: the link's state when it is not
// the one told last, then an overflow. Connected makes the reader list
// everything and so settles an overflow before it.
func (m *mailbox) urgent(told **linkState) (observe.Event, bool) {
	link := m.link.Load()
	if link != *told {
		up := *told != nil && (*told).event.Kind == observe.Connected
		if up && link.after != nil {
			link = link.after // the reader believes in the link before
		}
		*told = link
		if link.event.Kind == observe.Connected {
			m.overflow.Store(false)
		}
		return link.event, true
	}
	if m.overflow.Swap(false) {
		return observe.Event{Kind: observe.Overflow}, true
	}
	return observe.Event{}, false
}
