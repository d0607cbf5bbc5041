// Package config owns the agent's own configuration: the TOML file's schema,
// its defaults and its validation, and the catalog of images, machine types
// and credentials that it offers to specs.
//
// It decides nothing about how the values are used, and finds out nothing
// about the host: an absent host id or name stays empty.
package config

import (
	"net/netip"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// DefaultPath is where the packages install the configuration.
const DefaultPath = "/etc/egress-hostagent/config.toml"

// Config is the agent's configuration, complete: defaults are applied.
type Config struct {
	Path     string // the file it was read from; empty for Default
	Host     Host
	Libvirt  Libvirt
	Specs    Specs
	Manifest Manifest // [manifest] and [manifest.policy]
	TLS      TLS
	Tree     string // [tree] root: the image tree's directory
	State    string // [state] dir: what the agent has to remember
	Control  Control
	Catalog  spec.Catalog // [images.KEY], [machine_types.KEY], [credentials.KEY], [defaults]
	Policy   Policy
	Probe    Probe
	Limits   Limits
}

// Host is who the agent says it is. Empty fields are for the agent to fill in:
// the id from the machine id, the name from the kernel's host name.
type Host struct {
	ID   string
	Name string
}

// Accelerations of Libvirt.
const (
	KVM = "kvm"
	TCG = "tcg" // emulation, for tests: slow
)

// Libvirt is how domains are run.
type Libvirt struct {
	URI          string // of this host's hypervisor
	Acceleration string // KVM or TCG
	// CallTimeout is how long one call is waited for. The call itself can not
	// be cancelled: it keeps one of a few slots until libvirt answers.
	CallTimeout time.Duration
	// Keepalive is the pause between two signs of life that libvirt is asked
	// for, in whole seconds. When four are missing the link is given up.
	Keepalive time.Duration
	// AgentTimeout is how long libvirt waits for a guest agent, in whole seconds.
	AgentTimeout time.Duration
}

// Specs is the watched directory with one file a proxy.
type Specs struct{ Dir string }

// Control is the local API's unix socket.
type Control struct {
	Socket string
	// Admins are the users, besides root, whose orders count: names, or uids in
	// decimal. There may be no such user.
	Admins []string
}

// Policy is what the agent may do and believe.
type Policy struct {
	// AllowedCIDRs are networks besides a proxy's own in which an address that
	// its guest claims counts.
	AllowedCIDRs []netip.Prefix
	// DeletionDelay lies between the two looks that both have to find a proxy
	// gone before it is deleted.
	DeletionDelay time.Duration
	// ShutdownGrace is how long a guest gets to shut down before it is forced.
	ShutdownGrace time.Duration
	// MaxUnavailable is how many proxies, at least 1, may be down at once because
	// the agent changes them.
	MaxUnavailable int
	// RolloutWait is how long a changed proxy may take to be Ready again before
	// the roll-out stops.
	RolloutWait time.Duration
}

// Probe says how often proxies are probed.
type Probe struct {
	Enabled  bool
	Interval time.Duration
	Timeout  time.Duration // of one probe; not above Interval
}

// Limits bounds the agent's own work.
type Limits struct {
	Actions int           // actions at work at once
	Resync  time.Duration // how often everything is looked at without any event
	// DiskReserve is the free space of the image tree below which a domain that
	// ran out of space stays paused, nothing new is made, and no base image goes.
	DiskReserve spec.Size
	// MemoryReserve is the host's free memory that a start of one more proxy must
	// leave.
	MemoryReserve spec.Size
	// StartInterval lies between the starts of two domains; 0 for none.
	StartInterval time.Duration
	// ImageGrace is how long files of the image tree that nobody refers to any
	// more are kept.
	ImageGrace time.Duration
}

// Default gives the configuration of an empty file.
func Default() Config {
	return Config{
		Libvirt: Libvirt{
			URI: "qemu:///system", Acceleration: KVM,
			CallTimeout: 30 * time.Second, Keepalive: 5 * time.Second, AgentTimeout: 5 * time.Second,
		},
		Specs:    Specs{Dir: "/etc/egress-hostagent/proxies.d"},
		Manifest: Manifest{Interval: time.Minute, Wait: 50 * time.Second, Policy: remoteDefault()},
		Tree:     "/var/lib/libvirt/images/egress",
		State:    "/var/lib/egress-hostagent",
		Control:  Control{Socket: "/run/egress-hostagent/control.sock"},
		Catalog: spec.Catalog{
			Images:       map[string]spec.Image{},
			MachineTypes: map[string]spec.MachineType{},
			Credentials:  map[string]string{},
		},
		Policy: Policy{DeletionDelay: 30 * time.Second, ShutdownGrace: 60 * time.Second, MaxUnavailable: 1, RolloutWait: 10 * time.Minute},
		Probe:  Probe{Enabled: true, Interval: 30 * time.Second, Timeout: 5 * time.Second},
		Limits: Limits{Actions: 2, Resync: 60 * time.Second, DiskReserve: 1 << 30, MemoryReserve: 256 << 20, StartInterval: time.Second, ImageGrace: 24 * time.Hour},
	}
}
