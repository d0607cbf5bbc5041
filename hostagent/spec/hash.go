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
// changes (cpus, memory), the Live part what a running domain takes on (the
// bandwidth of its NICs). Labels, probe and port are in none of them, nor is
// what says how and when to act: Hold, Off, Drain and SkipCleanup.
type Hash struct {
	Version     int
	Incarnation string // 32 hex digits
	Machine     string // 32 hex digits
	Live        string // 32 hex digits; empty when nothing of it is set
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
		n.used(func(name, value string) { field(inc, name, value) })
	}
	field(inc, "seed", s.SeedInput("", nil).ContentHash())
	mach := sha256.New()
	field(mach, "cpus", strconv.Itoa(s.CPUs))
	field(mach, "memory", strconv.FormatInt(int64(s.Memory), 10))
	return Hash{
		Version:     HashVersion,
		Incarnation: hex.EncodeToString(inc.Sum(nil)[:16]),
		Machine:     hex.EncodeToString(mach.Sum(nil)[:16]),
		Live:        s.live(),
	}
}

// used gives the keys that a definition takes, of those that not every NIC has:
// one that is not used leaves no trace in a hash.
func (n NIC) used(to func(name, value string)) {
	if n.Direct != "" {
		to("direct", n.Direct)
	}
	if n.VLAN != 0 {
		to("vlan", strconv.Itoa(n.VLAN))
	}
	if n.Isolated {
		to("isolated", "")
	}
	if n.CleanTraffic {
		to("clean_traffic", "")
	}
}

// limits gives the bandwidth that is set.
func (n NIC) limits(to func(name, value string)) {
	if n.Inbound != 0 {
		to("inbound", strconv.FormatInt(int64(n.Inbound), 10))
	}
	if n.Outbound != 0 {
		to("outbound", strconv.FormatInt(int64(n.Outbound), 10))
	}
}

// static gives what the seed says of the NIC.
func (n NIC) static(to func(name, value string)) {
	for _, a := range n.Addresses {
		to("address", a.String())
	}
	for _, g := range n.Gateways {
		to("gateway", g.String())
	}
	for _, a := range n.DNS {
		to("dns", a.String())
	}
}

func (s Spec) live() string {
	h, limited := sha256.New(), false
	for i, n := range s.Networks {
		if n.Inbound == 0 && n.Outbound == 0 {
			continue
		}
		limited = true
		field(h, "nic", strconv.Itoa(i))
		field(h, "inbound", strconv.FormatInt(int64(n.Inbound), 10))
		field(h, "outbound", strconv.FormatInt(int64(n.Outbound), 10))
	}
	if !limited {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// field writes a self-delimiting (name, value) pair, so that no two different
// sequences of fields give the same bytes.
func field(w io.Writer, name, value string) {
	fmt.Fprintf(w, "%d:%s=%d:%s;", len(name), name, len(value), value)
}

// SameButLive tells whether nothing but the Live parts differs, if anything.
func (h Hash) SameButLive(o Hash) bool {
	h.Live = o.Live
	return h == o
}

// String gives the form kept in metadata and records: "1:INCARNATION:MACHINE",
// and ":LIVE" if there is such a part.
func (h Hash) String() string {
	text := fmt.Sprintf("%d:%s:%s", h.Version, h.Incarnation, h.Machine)
	if h.Live != "" {
		text += ":" + h.Live
	}
	return text
}

// ParseHash reads what String wrote. It accepts any version of at least 1.
func ParseHash(s string) (Hash, error) {
	part := strings.Split(s, ":")
	if len(part) != 3 && (len(part) != 4 || part[3] == "") {
		return Hash{}, fmt.Errorf("spec hash %q: want VERSION:INCARNATION:MACHINE[:LIVE]", s)
	}
	v, err := strconv.Atoi(part[0])
	if err != nil || v < 1 {
		return Hash{}, fmt.Errorf("spec hash %q: version is not a positive integer", s)
	}
	return Hash{Version: v, Incarnation: part[1], Machine: part[2], Live: strings.Join(part[3:], "")}, nil
}
