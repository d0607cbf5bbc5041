// Package spec owns a proxy's spec: its decoded form, strict decoding with
// every problem of a document at once, defaults, validation and the versioned
// hash that says whether a running guest still is what the spec asks for.
//
// It reads no file and knows no libvirt; where a spec came from is the
// source package's business, what to do about it the plan package's.
package spec

import (
	"net/url"
	"time"

	"github.com/egress-proxies/egress-hostagent/seed"
)

// Spec is one proxy as its operator wants it, complete: defaults are applied,
// the machine type and the image key are resolved against the Catalog.
type Spec struct {
	Name        string // validated by CheckName
	Image       Image  // resolved
	MachineType string // key the operator gave; empty when cpus and memory were given
	CPUs        int    // 1 to MaxCPUs
	Memory      Size   // bytes, a whole number of MiB
	Disk        Size   // bytes; 0 means the base image's own virtual size
	Port        int    // the proxy's TCP port in the guest, 1 to 65535
	UserData    Secret // shipped to the guest byte for byte
	GuestAgent  bool   // install the QEMU guest agent through vendor data
	Networks    []Network
	Probe       Probe
	Labels      map[string]string

	Hold        bool          // on_change = "hold": changes wait, the running guest stays
	Off         bool          // power = "off"
	Drain       time.Duration // out of lists for so long before the guest is powered off, up to MaxDrain; 0: not at all
	SkipCleanup bool          // when the spec goes away the VM is left as it is

	// Own is a digest, 32 hex digits, of what the document says by itself, before
	// defaults and catalog: when Hash differs and Own does not, the config made
	// the change.
	Own string
}

// Network is one NIC. Exactly one of Network and Bridge is set.
type Network struct {
	Network string // a libvirt network's name
	Bridge  string // a host bridge's name
}

// Probe types. ProbeTCP is the default.
const (
	ProbeTCP  = "tcp"
	ProbeHTTP = "http"
)

// Probe says how to find out that the proxy works.
type Probe struct {
	Type         string // ProbeTCP or ProbeHTTP
	URL          string // ProbeHTTP: what to ask for through the proxy; http only
	ExpectStatus int    // ProbeHTTP: the status that counts as reachable; default 204
}

// Image is an entry of the config's [images] table, with its key.
type Image struct {
	Key    string
	Source string // an absolute path, or an https URL
	SHA256 string // 64 lower-case hex digits: the digest of the source's bytes
	Format string // "qcow2" or "raw"
}

// Remote tells whether the image is fetched over the network.
func (i Image) Remote() bool {
	u, err := url.Parse(i.Source)
	return err == nil && u.Scheme == "https"
}

// MachineType is an entry of the config's [machine_types] table.
type MachineType struct {
	CPUs   int
	Memory Size
}

// Catalog is what the agent's config offers to specs.
type Catalog struct {
	Images       map[string]Image
	MachineTypes map[string]MachineType
	Defaults     Defaults
}

// Defaults are used where a spec is silent; empty fields mean "no default".
type Defaults struct {
	Image       string // key of Catalog.Images
	MachineType string // key of Catalog.MachineTypes
	Disk        Size
	Port        int
	Network     Network
}

// SeedInput is what the guest of this spec is seeded with in the incarnation
// named by instanceID.
func (s Spec) SeedInput(instanceID string) seed.Input {
	return seed.Input{
		InstanceID: instanceID,
		Hostname:   Hostname(s.Name),
		UserData:   s.UserData,
		GuestAgent: s.GuestAgent,
	}
}
