package plan

import (
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Kept is what of a proxy's memory outlasts a restart of the agent. It can be
// compared with ==.
type Kept struct {
	// Generation is that of the VM which the rest is about.
	Generation  int    `json:"generation,omitempty"`
	Origin      string `json:"origin,omitempty"` // kind of the source that listed it last
	SkipCleanup bool   `json:"skip_cleanup,omitempty"`
	// Own and Hash are what its last good spec says by itself and what that
	// resolved to. Cause says which of them the change came with that the domain
	// has not taken up yet.
	Own   string    `json:"own,omitempty"`
	Hash  spec.Hash `json:"hash,omitzero"`
	Cause Cause     `json:"cause,omitempty"`

	Paused   bool   `json:"paused,omitempty"`   // by an operator
	Recreate string `json:"recreate,omitempty"` // instance-id of the incarnation an operator wants replaced
	Delete   bool   `json:"delete,omitempty"`   // an operator wants it removed, source or none
	Adopt    bool   `json:"adopt,omitempty"`    // an operator wants its metadata written again
	Leaving  bool   `json:"leaving,omitempty"`  // its deletion has begun

	Held     Hold `json:"held,omitzero"`
	Released Hold `json:"released,omitzero"`
	Down     Down `json:"down,omitzero"`

	Retry   Retry     `json:"retry,omitzero"`
	Running Retry     `json:"running,omitzero"` // of Start and Resume, which go on while another step waits
	Tidying Retry     `json:"tidying,omitzero"` // of Autostart, Record and Discard, likewise
	Starts  Starts    `json:"starts,omitzero"`
	Begun   int       `json:"begun,omitempty"`  // starts by the agent, over its whole life
	Memory  spec.Size `json:"memory,omitempty"` // that it was started with last
	// WasReady: it was Ready since it was started.
	WasReady bool `json:"was_ready,omitempty"`
}

// Unlisted tells whether its source is known not to list it any more.
func (k Kept) Unlisted() bool {
	return k.Leaving || k.Delete || k.Held.Kind == HoldDeletion || k.Released.Kind == HoldDeletion
}

// Cause is why a proxy's domain is not what is wanted.
type Cause string

// Causes. Others is everything but the proxy's own spec: an edited catalog or
// default, or nobody knows what.
const (
	CauseOwn   Cause = "own"
	CauseOther Cause = "other"
)

// HoldKind is what kind of change is held.
type HoldKind string

// Kinds of held changes.
const (
	HoldDeletion HoldKind = "deletion"
	HoldChange   HoldKind = "change"
)

// Hold is a change that waits for an operator, or that one has released. For is
// the hash that a change leads to; empty for a deletion.
type Hold struct {
	Kind  HoldKind  `json:"kind,omitempty"`
	For   string    `json:"for,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Down is a proxy that is down, or about to be, because the agent changes it.
type Down struct {
	Since    time.Time `json:"since,omitzero"`
	Hash     string    `json:"hash,omitempty"` // that it is changed to
	WasReady bool      `json:"was_ready,omitempty"`
	Failed   string    `json:"failed,omitempty"` // why it did not come back
}

// Tombstone marks a VM that was abandoned: whatever happens, it is not touched.
type Tombstone struct {
	UUID       string    `json:"uuid"`
	Name       string    `json:"name"`
	Generation int       `json:"generation,omitempty"`
	At         time.Time `json:"at"`
	Why        string    `json:"why,omitempty"`
	// Left: our claim was taken off, or could not be while it was possible; from
	// now on there is no reason to even look.
	Left bool `json:"left,omitempty"`
	// Saved: it is on disk. Nothing is done about it before.
	Saved bool `json:"-"`
}

// Restored returns memory that was read from disk, fit for use now: a clock
// that was wrong then, or is now, must not make anything wait for long.
func (m Memory) Restored(now time.Time) Memory {
	for i := range m.Removed {
		m.Removed[i].At = past(m.Removed[i].At, now)
	}
	for name, p := range m.Proxies {
		for _, r := range p.retries() {
			if r.Class == observe.Permanent && r.Kind != Define { // the config may be another by now; a try of Define takes the guest down
				*r = Retry{}
			}
		}
		p.bound(now)
		m.Proxies[name] = p
	}
	return m
}

// bound corrects times that a clock which was ahead has left: they come from
// disk, so that setting the clock back while the agent runs shows in them.
func (p *Proxy) bound(now time.Time) {
	for _, r := range p.retries() {
		if latest := now.Add(2 * backoffMax); r.Next.After(latest) {
			r.Next = latest
		}
	}
	for _, t := range []*time.Time{&p.Starts.Last, &p.Held.Since, &p.Released.Since, &p.Down.Since} {
		*t = past(*t, now)
	}
}

// past is t, or now for a time that has not come yet.
func past(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
