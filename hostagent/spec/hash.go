package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// HashVersion is the version that Spec.Hash computes. A released version's
// result never changes (goldens pin it); a new field of Spec that alters the
// guest gets a new version, and hashes of older versions stay computable.
const HashVersion = 1

// Hash identifies what of a spec a domain was made from. The Incarnation part
// covers what can change only with a new overlay (image digest, disk,
// networks, seed content), the Machine part what a redefine and restart
// changes (cpus, memory). Labels, probe and port are in neither, nor is what
// says how and when to act: Hold, Off, Drain and SkipCleanup.
type Hash struct {
	Version     int
	Incarnation string // 32 hex digits
	Machine     string // 32 hex digits
}

// Hash computes the current version's hash.
func (s Spec) Hash() Hash {
	inc := sha256.New()
	field(inc, "image", s.Image.SHA256)
	field(inc, "format", s.Image.Format)
	field(inc, "disk", strconv.FormatInt(int64(s.Disk), 10))
	for _, n := range s.Networks {
		field(inc, "network", n.Network.Network)
		field(inc, "bridge", n.Bridge)
	}
	field(inc, "seed", s.SeedInput("", nil).ContentHash())
	mach := sha256.New()
	field(mach, "cpus", strconv.Itoa(s.CPUs))
	field(mach, "memory", strconv.FormatInt(int64(s.Memory), 10))
	return Hash{
		Version:     HashVersion,
		Incarnation: hex.EncodeToString(inc.Sum(nil)[:16]),
		Machine:     hex.EncodeToString(mach.Sum(nil)[:16]),
	}
}

// field writes a self-delimiting (name, value) pair, so that no two different
// sequences of fields give the same bytes.
func field(w io.Writer, name, value string) {
	fmt.Fprintf(w, "%d:%s=%d:%s;", len(name), name, len(value), value)
}

// String gives the form kept in metadata and records: "1:INCARNATION:MACHINE".
func (h Hash) String() string {
	return fmt.Sprintf("%d:%s:%s", h.Version, h.Incarnation, h.Machine)
}

// ParseHash reads what String wrote. It accepts any version of at least 1.
func ParseHash(s string) (Hash, error) {
	part := strings.Split(s, ":")
	if len(part) != 3 {
		return Hash{}, fmt.Errorf("spec hash %q: want VERSION:INCARNATION:MACHINE", s)
	}
	v, err := strconv.Atoi(part[0])
	if err != nil || v < 1 {
		return Hash{}, fmt.Errorf("spec hash %q: version is not a positive integer", s)
	}
	return Hash{Version: v, Incarnation: part[1], Machine: part[2]}, nil
}
