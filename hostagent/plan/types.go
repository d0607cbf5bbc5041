package plan

import (
	"net/netip"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Kind is what an action does. Each action is one step that is safe to repeat;
// the next step is planned from what is observed after it.
type Kind string

// Action kinds.
const (
	InitTree   Kind = "init-tree"   // write the marker into an empty image tree
	FetchImage Kind = "fetch-image" // get, verify and publish a base image
	Prepare    Kind = "prepare"     // make an incarnation: record, seed, overlay
	Define     Kind = "define"      // define the domain on a prepared incarnation
	Tune       Kind = "tune"        // set what a running domain takes on: the bandwidth of its NICs
	Autostart  Kind = "autostart"   // let libvirt start the domain with the host
	Start      Kind = "start"       // start the domain
	Resume     Kind = "resume"      // let a domain go on that libvirt paused
	Shutdown   Kind = "shutdown"    // ask the guest to power off (ACPI)
	Destroy    Kind = "destroy"     // power the domain off by force
	Undefine   Kind = "undefine"    // remove the domain's definition
	Discard    Kind = "discard"     // remove an incarnation's overlay, seed and record
	Record     Kind = "record"      // bring the incarnation's record up to the spec
	Adopt      Kind = "adopt"       // write the ownership metadata again, as the record has it
	Disown     Kind = "disown"      // take our claim off an abandoned VM and mark its records
	Collect    Kind = "collect"     // remove files of the tree that nobody refers to
)

// Action is one step for the executor, with the reason it is taken.
type Action struct {
	Kind     Kind
	Name     string // proxy; empty for InitTree and FetchImage
	UUID     string
	Instance string // incarnation: Define, Tune, Discard
	Reason   string
	Domain   string        // Define: the domain's current name, kept over a redefine
	Spec     *spec.Spec    // Prepare, Define, Tune, Start
	Hash     spec.Hash     // Prepare, Define, Tune
	Origin   string        // Prepare, Define
	Base     *observe.Base // Prepare, Define
	Image    spec.Image    // FetchImage
	Last     bool          // Discard: nothing of the proxy remains after it
	On       bool          // Autostart, Define: whether the domain starts with the host; Disown: whether it is touched
	// Generation is that of the domain the action is about.
	Generation int
	Bases      []string              // Collect: base images, by sha256
	Strays     []observe.Incarnation // Collect: files without a record
}

// Policy is what the agent's config says about planning.
type Policy struct {
	HostID         string
	HostIDGiven    bool          // by the config: no other is taken on
	DeletionDelay  time.Duration // between the two reads that must both miss a name
	ShutdownGrace  time.Duration // from the first ACPI request to power-off by force
	ShutdownRepeat time.Duration // between ACPI requests
	AllowedCIDRs   []netip.Prefix
	Probe          bool          // false: nothing is probed, Reachable does not apply
	ProbeStale     time.Duration // a probe older than this says nothing any more
	DiskReserve    spec.Size     // free space of the tree below which what ran out of space stays paused, and nothing new is made
	MemoryReserve  spec.Size     // of the host, that no start of another proxy may take
	MaxUnavailable int           // proxies of the host that are down at once because the agent changes them
	RolloutWait    time.Duration // how long a changed proxy may take to be Ready again
	StartInterval  time.Duration // between two starts
	ImageGrace     time.Duration // how long files that nobody refers to are kept
	AddressStale   time.Duration // an address not confirmed for so long is shown as stale
}

// Libvirt is what is known of the link to libvirt.
type Libvirt struct {
	Tried  bool   // false until the first answer or failure
	Synced bool   // a complete list was read since the link came up
	Detail string // why not
	// Degraded says which calls do not work although the link is up.
	Degraded string
}

// HostMemory is what the host has left; the zero value: not known.
type HostMemory struct {
	Available uint64 // bytes that can be used without swapping, as the kernel estimates it
	At        time.Time
}

// Progress is how far the fetch of an image is, in bytes; Total is -1 while
// unknown.
type Progress struct{ Done, Total int64 }

// Probe is a probe's last result and what was probed.
type Probe struct {
	Target  netip.AddrPort
	OK      bool
	Void    bool   // it says nothing about the proxy
	Reason  string // why not OK
	Detail  string
	Latency time.Duration
	Egress  netip.Addr // where the proxy says it comes from; not valid: it does not say
	At      time.Time
}

// Observed is everything the agent sees.
type Observed struct {
	Libvirt   Libvirt
	Domains   map[string]observe.Domain       // by UUID, foreign ones too
	Unsure    map[string]string               // by UUID: why its last look-up said nothing
	Tree      observe.Tree                    // Marker is empty until the first scan
	Measuring bool                            // Tree.Free is about to be read anew
	Busy      map[string]Kind                 // by proxy name: the action under way
	Fetching  map[string]Progress             // by sha256
	Sightings map[string][]observe.Sighting   // by proxy name
	Prefixes  map[spec.Network][]netip.Prefix // subnets a NIC on it may have addresses of
	HostAddrs []netip.Addr
	Memory    HostMemory
	Probes    map[string]Probe // by proxy name
}

// Result is what Make decides.
type Result struct {
	Actions []Action
	Memory  Memory
	Proxies []status.Proxy // by name
	Host    []status.Condition
	Images  []status.Image
	Holds   []status.Hold
	Counts  status.Counts
	Changes []Change  // conditions that are not what they were
	Rescan  bool      // a source read is needed to confirm an absence
	Recheck bool      // a domain waits for room in the image tree, which tells nobody when it has some
	Wake    time.Time // when to plan again though nothing happens; zero: never
}

// Change is a condition that took another status or reason. Name is empty for
// a condition of the host.
type Change struct {
	Name      string
	Phase     status.Phase
	Condition status.Condition
}

// Input bundles Make's arguments.
type Input struct {
	Desired  source.Merged
	Observed Observed
	Memory   Memory
	Policy   Policy
	Images   map[string]spec.Image        // the config's catalog, by key: for status
	UUID     func(identity string) string // domxml.DomainUUID of this host, or a memo of it
	// Generations is what Generations gives for Memory and Observed.
	Generations map[string]int
	// Stored is what of each proxy's memory is on disk; nil: all of it. What
	// counts against a limit is written down before it is done, or an agent that
	// dies in between would do more than the limit allows.
	Stored map[string]Kept
	Now    time.Time
}
