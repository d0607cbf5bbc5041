package observe

import "github.com/egress-proxies/egress-hostagent/hostagent/spec"

// Power is a domain's power state as libvirt gives it, coarsened to what
// decisions need.
type Power string

// Power states. A crashed or shut-off domain is PowerOff.
const (
	PowerOff     Power = "off"
	PowerRunning Power = "running"
	PowerPaused  Power = "paused"
)

// RawDomain is a domain as the hypervisor lists it. Metadata is the content of
// our namespace's element as libvirt returns it, empty when there is none.
type RawDomain struct {
	UUID       string // canonical lower case
	Name       string
	Power      Power
	Stalled    bool // paused by libvirt, because a disk failed a write: by default, for want of room
	Persistent bool
	Autostart  bool
	Metadata   string
}

// Ownership is the claim in a domain's metadata element: what makes a domain
// ours, and which incarnation of which proxy it is.
type Ownership struct {
	Host     string // host.id
	Name     string // the proxy's name
	Instance string // instance-id of the incarnation it is defined on
	Origin   string // kind of source the spec came from
	Spec     spec.Hash
	Seed     string // seed content hash
	Base     string // base image's sha256
	// Generation counts the VMs of that name that were abandoned before: each
	// has an identity of its own.
	Generation int
}

// Domain is a RawDomain with its claim read. Owner is nil when there is no
// claim; ClaimErr says why a claim that is there could not be read.
type Domain struct {
	RawDomain
	Owner    *Ownership
	ClaimErr string
}
