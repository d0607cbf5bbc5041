// Package status owns the words in which the agent tells people and programs
// how its proxies are: conditions, phases and the status documents that
// `status --json`, the report and the control API share. Types only: no I/O,
// no clock.
package status

import (
	"net/netip"
	"time"
)

// Truth is a condition's value.
type Truth string

// Condition values. Unknown means "cannot see", never "no".
const (
	True    Truth = "True"
	False   Truth = "False"
	Unknown Truth = "Unknown"
)

// Condition types of a proxy.
const (
	Synced    = "Synced"    // the spec is what runs
	Running   = "Running"   // the domain runs
	Addressed = "Addressed" // an address is known and counts
	Reachable = "Reachable" // the probe answered as expected; Unknown for good with the reason NoWayFromHost
	Ready     = "Ready"     // all that apply
)

// ConditionTypes is the order in which a proxy's conditions are shown.
var ConditionTypes = [...]string{Synced, Running, Addressed, Reachable, Ready}

// Condition types of a host.
const (
	ConfigRead       = "ConfigRead" // the configuration on disk is the one that counts
	LibvirtConnected = "LibvirtConnected"
	ImageTree        = "ImageTree"
	SpecsRead        = "SpecsRead"
	ManifestFresh    = "ManifestFresh" // where a manifest is pulled: somebody renews it before it expires
	NothingHeld      = "NothingHeld"   // no mass change waits for an operator
	RollOut          = "RollOut"       // changed proxies come back
	Acting           = "Acting"        // the agent does what it finds to do
)

// Condition is one fact with its reason. Since is when Status last changed.
type Condition struct {
	Type    string    `json:"type"`
	Status  Truth     `json:"status"`
	Reason  string    `json:"reason,omitempty"`  // one CamelCase word
	Message string    `json:"message,omitempty"` // what happened, where, what to do
	Since   time.Time `json:"since"`
}

// NoWayFromHost is the reason of a Reachable condition that can not be had: the
// proxy's primary address is on a NIC that the host itself has no way to.
const NoWayFromHost = "NoWayFromHost"

// Applies tells whether the condition counts towards Ready.
func (c Condition) Applies() bool { return c.Type != Reachable || c.Reason != NoWayFromHost }

// Phase is a proxy's state in one word, derived from its conditions and the
// step the agent is at.
type Phase string

// Phases, roughly in the order of a life.
const (
	PhaseUnknown  Phase = "Unknown" // cannot see
	PhaseBlocked  Phase = "Blocked" // an operator has to act: bad spec, conflict, missing tree
	PhaseWaiting  Phase = "Waiting" // for something that comes by itself
	PhaseCreating Phase = "Creating"
	PhaseStarting Phase = "Starting" // defined or booting, not yet ready
	PhaseReady    Phase = "Ready"
	PhaseDegraded Phase = "Degraded" // was ready, or runs without all conditions
	PhaseUpdating Phase = "Updating" // being recreated or restarted for its spec
	PhaseRemoving Phase = "Removing"
	PhasePaused   Phase = "Paused" // an operator told the agent to keep its hands off
	PhaseOff      Phase = "Off"    // as its spec asks
)

// Address is one address of a proxy, with who said so and when.
type Address struct {
	Address netip.Addr `json:"address"`
	Source  string     `json:"source"`
	Seen    time.Time  `json:"seen"`
	Stale   bool       `json:"stale,omitempty"`
}

// Proxy is everything the agent says about one proxy.
type Proxy struct {
	Name       string            `json:"name"`
	Phase      Phase             `json:"phase"`
	Origin     string            `json:"origin,omitempty"`
	File       string            `json:"file,omitempty"`
	UUID       string            `json:"uuid"`
	Instance   string            `json:"instance_id,omitempty"`
	SpecHash   string            `json:"spec_hash,omitempty"`
	Addresses  []Address         `json:"addresses,omitempty"`     // primary first
	URL        string            `json:"url,omitempty"`           // proxy URL on the primary address
	Egress     netip.Addr        `json:"egress_address,omitzero"` // where its traffic comes from, by its last probe: the proxy's own claim
	Labels     map[string]string `json:"labels,omitempty"`
	Next       string            `json:"next,omitempty"`    // the step under way or awaited, in words
	Leaving    bool              `json:"leaving,omitempty"` // it is being taken down: clients should go elsewhere
	Starts     int               `json:"starts,omitempty"`  // of its domain by the agent, over its whole life
	Conditions []Condition       `json:"conditions"`
	Warnings   []string          `json:"warnings,omitempty"` // what in the spec will not work as it looks
}

// Condition gives the condition of that type; ok is false when there is none.
func (p Proxy) Condition(typ string) (c Condition, ok bool) { return find(p.Conditions, typ) }

// IsReady tells whether the proxy is Ready.
func (p Proxy) IsReady() bool {
	c, ok := p.Condition(Ready)
	return ok && c.Status == True
}

// Source is the state of one source of desired state.
type Source struct {
	Origin   string    `json:"origin"` // "dir" or "manifest"
	Location string    `json:"location"`
	Synced   bool      `json:"synced"`
	LastRead time.Time `json:"last_read"`
	Proxies  int       `json:"proxies"`
	Problems []string  `json:"problems,omitempty"`
	// Shadowed are names whose spec of this source does not count, because one
	// that comes before it lists them too.
	Shadowed []string `json:"shadowed,omitempty"`
}

// Manifest is what there is to know of a pulled manifest. The specs are as those
// of any source.
type Manifest struct {
	Revision   int64     `json:"revision"`             // of the document that stands; 0: none does
	Digest     string    `json:"digest,omitempty"`     // SHA-256 of it, 64 hex digits
	Key        string    `json:"key,omitempty"`        // whose signature it has
	IssuedAt   time.Time `json:"issued_at,omitzero"`   // by the publisher's clock
	ExpiresAt  time.Time `json:"expires_at,omitzero"`  // after that it is stale, nothing else
	FetchedAt  time.Time `json:"fetched_at,omitzero"`  // when it was taken
	FromCache  bool      `json:"from_cache,omitempty"` // by an earlier run, and no server has confirmed it since
	CheckedAt  time.Time `json:"checked_at,omitzero"`  // end of the last attempt that was good
	Reason     string    `json:"reason,omitempty"`     // why the last attempt counts for nothing; empty: it was good
	Problem    string    `json:"problem,omitempty"`    // the same for people
	Since      time.Time `json:"since,omitzero"`       // of the trouble
	Failures   int       `json:"failures,omitempty"`   // attempts since then
	Stale      bool      `json:"stale,omitempty"`      // past ExpiresAt
	ClockAhead float64   `json:"clock_ahead_seconds"`  // of the host's clock against the server's; negative: it is behind
	ClockOff   bool      `json:"clock_off,omitempty"`  // so far that times can not be judged
	// Credentials are the files that are shown to the server.
	Credentials []Credential `json:"credentials,omitempty"`
}

// Credential is a file that the agent proves itself with, or knows a server by.
type Credential struct {
	Role     string    `json:"role"`
	Path     string    `json:"path"`
	Problem  string    `json:"problem,omitempty"` // why it can not be used
	Kept     bool      `json:"kept,omitempty"`    // an earlier content is used instead
	Warning  string    `json:"warning,omitempty"`
	NotAfter time.Time `json:"not_after,omitzero"` // of a certificate
}

// Host is the agent's whole state at one moment.
type Host struct {
	Host       string      `json:"host"`
	HostID     string      `json:"host_id"`
	Version    string      `json:"version"`
	Time       time.Time   `json:"time"`
	Libvirt    string      `json:"libvirt_uri"`
	Tree       string      `json:"image_tree"`
	Sources    []Source    `json:"sources"`
	Manifest   *Manifest   `json:"manifest,omitempty"` // nil: none is configured
	Conditions []Condition `json:"conditions"`
	Images     []Image     `json:"images,omitempty"`
	Proxies    []Proxy     `json:"proxies"` // by name
	Holds      []Hold      `json:"holds,omitempty"`
	Problems   []string    `json:"problems,omitempty"` // of the agent's own state
	Counts
	Link       Link `json:"link"`
	Goroutines int  `json:"goroutines"`
}

// Counts are how many VMs there are of each kind.
type Counts struct {
	Managed   int `json:"managed_domains"`
	Orphaned  int `json:"orphaned_domains"`  // of managed ones: their source is not configured any more
	Abandoned int `json:"abandoned_domains"` // left alone for good
	Foreign   int `json:"foreign_domains"`   // of others
}

// Hold is a set of changes that waits for an operator. The digest stands for
// exactly this set.
type Hold struct {
	Kind    string    `json:"kind"` // "deletion" or "change"
	Digest  string    `json:"digest"`
	Proxies []string  `json:"proxies"`
	Since   time.Time `json:"since"`
	Message string    `json:"message"` // what is held, and what to do
}

// Link is how the agent's link to libvirt is doing, in numbers.
type Link struct {
	Connected   bool   `json:"connected"`
	Connections int    `json:"connections"` // open, those that wait for a stuck call included
	StuckCalls  int    `json:"stuck_calls"` // calls nobody waits for any more that libvirt has not answered
	Connects    uint64 `json:"connects"`    // times the link came up
	Replaced    uint64 `json:"replaced"`    // connections replaced because none of their calls came back
	Leaked      uint64 `json:"leaked"`      // connections closed with references left: a bug
	Handles     int64  `json:"handles"`     // libvirt objects held now
}

// Image is a base image's state.
type Image struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	State  string `json:"state"`            // "ready", "fetching", "failed", "unused"
	Detail string `json:"detail,omitempty"` // progress or error
}

// Condition gives the host condition of that type.
func (h Host) Condition(typ string) (c Condition, ok bool) { return find(h.Conditions, typ) }

func find(cs []Condition, typ string) (Condition, bool) {
	for _, c := range cs {
		if c.Type == typ {
			return c, true
		}
	}
	return Condition{}, false
}
