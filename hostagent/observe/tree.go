package observe

import "time"

// MarkerState is what the image tree's marker file says.
type MarkerState string

// Marker states. Only MarkerOK allows a decision about a disk.
const (
	MarkerOK         MarkerState = "ok"
	MarkerAbsent     MarkerState = "absent"     // the directory is there, the marker is not
	MarkerForeign    MarkerState = "foreign"    // the marker names another host
	MarkerUnreadable MarkerState = "unreadable" // directory missing, permission denied, I/O error
)

// Tree is one scan of the image tree.
type Tree struct {
	Root         string
	Marker       MarkerState
	Host         string                   // the host id in the marker; empty when none could be read
	Detail       string                   // for people: what is wrong with the marker or the tree, and the fix
	Empty        bool                     // nothing at all beneath Root: a fresh tree, or a mount point without its volume
	Free         uint64                   // bytes its file system has left for the agent and QEMU
	Bases        map[string]Base          // by sha256
	Incarnations map[string][]Incarnation // by proxy name, in order of record creation, then instance-id
}

// Base is a published base image.
type Base struct {
	SHA256 string
	Path   string
	Format string // "qcow2" or "raw"
}

// Incarnation is what the tree holds of one overlay's life.
type Incarnation struct {
	Name     string
	Instance string
	Overlay  bool    // the overlay file exists
	Seed     bool    // the seed file exists with the size it was published with
	Record   *Record // nil: absent or unreadable
	Problem  string  // why the record could not be used
}

// Record is the JSON document beside an overlay: the second proof of
// ownership, and all that is needed to define a lost domain again.
type Record struct {
	Version  int    `json:"version"` // RecordVersion
	Host     string `json:"host"`
	Name     string `json:"name"`
	UUID     string `json:"uuid"`
	Instance string `json:"instance_id"`
	Origin   string `json:"origin"`
	SpecHash string `json:"spec_hash"`
	SeedHash string `json:"seed_hash"`   // seed content hash
	SeedFile string `json:"seed_sha256"` // sha256 of the seed image
	SeedSize int64  `json:"seed_size"`   // bytes
	Base     string `json:"base_sha256"`
	Format   string `json:"base_format"`
	// Generation is that of observe.Ownership.
	Generation int `json:"generation,omitempty"`
	// SkipCleanup: when the spec goes away the VM is abandoned, not deleted.
	SkipCleanup bool `json:"skip_cleanup,omitempty"`
	// Abandoned: the VM is nobody's business any more; its files are left.
	Abandoned bool      `json:"abandoned,omitempty"`
	Created   time.Time `json:"created"`
}

// RecordVersion is the version this agent writes; newer ones are left alone.
const RecordVersion = 1
