package virttest

import "github.com/egress-proxies/egress-hostagent/hostagent/observe"

// eventsHeld is how many events wait for the reader before some are dropped.
const eventsHeld = 1024

// eventQueue drops what finds it full and puts one Overflow behind what is in.
type eventQueue struct {
	out    chan observe.Event
	full   bool
	drop   int // events still to lose
	double int // events still to double
}

// newEventQueue keeps a place for Overflow.
func newEventQueue() eventQueue { return eventQueue{out: make(chan observe.Event, eventsHeld+1)} }

// push takes an event in, never waiting.
func (q *eventQueue) push(ev observe.Event) {
	if len(q.out) < eventsHeld {
		q.full = false
		q.out <- ev
		return
	}
	if !q.full {
		q.full = true
		q.out <- observe.Event{Kind: observe.Overflow}
	}
}

// emit is push with the faults asked for.
func (q *eventQueue) emit(ev observe.Event) {
	if q.drop > 0 {
		q.drop--
		return
	}
	q.push(ev)
	if q.double > 0 {
		q.double--
		q.push(ev)
	}
}

// DropEvents loses the next n events about domains.
func (f *Fake) DropEvents(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.drop += n
}

// DoubleEvents tells each of the next n events about domains twice.
func (f *Fake) DoubleEvents(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.double += n
}

// EmitOverflow tells the reader that events were lost.
func (f *Fake) EmitOverflow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.push(observe.Event{Kind: observe.Overflow})
}

// LoseLink makes every call fail with class Disconnected and tells the reader.
// Events that come while the link is down are lost.
func (f *Fake) LoseLink(detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected = false
	f.events.push(observe.Event{Kind: observe.LinkLost, Detail: detail})
}

// RestoreLink brings the link back and tells the reader.
func (f *Fake) RestoreLink() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected = true
	f.connects++
	f.events.push(observe.Event{Kind: observe.Connected})
}

// changed tells the reader to look at a domain again.
func (f *Fake) changed(uuid, detail string) {
	if f.connected {
		f.events.emit(observe.Event{Kind: observe.DomainChanged, UUID: uuid, Detail: detail})
	}
}
