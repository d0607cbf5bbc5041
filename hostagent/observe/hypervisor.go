package observe

import (
	"errors"
	"fmt"
)

// ErrNoDomain is libvirt's exact "no domain" answer: the only thing that means
// absent. Every other error means "cannot see".
var ErrNoDomain = errors.New("no such domain")

// ErrBusy is a call that was not made, because others do not come back: it says
// nothing of its object.
var ErrBusy = errors.New("call not made")

// Class says how a hypervisor error is to be retried.
type Class string

// Error classes.
const (
	Permanent    Class = "permanent"    // wait for a new spec or config
	Transient    Class = "transient"    // retry with backoff
	Disconnected Class = "disconnected" // the link is down; retry after reconnect
	Unavailable  Class = "unavailable"  // the guest agent, or the source asked, has no answer now
	Clash        Class = "clash"        // name or UUID belongs to another domain
)

// Error is a failed hypervisor call.
type Error struct {
	Op     string // for people: "define domain", "start domain"
	Object string // domain name or UUID, or network name
	Class  Class
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Object, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf gives err's class; what carries none is Transient.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Transient
}

// EventKind is what a hypervisor event is about.
type EventKind string

// Event kinds. An event is a hint to look again and carries no state.
const (
	Connected     EventKind = "connected"      // link up, callbacks registered: list everything
	LinkLost      EventKind = "link-lost"      // link down: nothing can be seen
	Overflow      EventKind = "overflow"       // events were dropped: list everything
	DomainChanged EventKind = "domain-changed" // look at this UUID again
	AgentChanged  EventKind = "agent-changed"  // the guest agent's channel connected or disconnected
)

// Event is one hint from the hypervisor.
type Event struct {
	Kind EventKind
	UUID string // for DomainChanged and AgentChanged
	// Detail is for logs only: the lifecycle event's name, or why the link is down.
	Detail string
}
