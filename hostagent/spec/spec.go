// Package spec owns a proxy's spec: its decoded form, strict decoding with
// every problem of a document at once, defaults, validation and the versioned
// hash that says whether a running guest still is what the spec asks for.
//
// It reads no file and knows no libvirt; where a spec came from is the
// source package's business, what to do about it the plan package's.
package spec

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
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
	VendorData  Secret // the user's own; nil means none, which is not the same as empty
	NetworkConf Secret // network_config: shipped as it is; empty means none
	Vars        map[string]Secret
	GuestAgent  bool // install the QEMU guest agent through vendor data
	Networks    []NIC
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

// Network is what a NIC is attached to. Exactly one of its fields is set.
type Network struct {
	Network string // a libvirt network's name
	Bridge  string // a host bridge's name
	Direct  string // a host interface's name: macvtap on it, in bridge mode
}

// Compare orders networks, for lists of them.
func (n Network) Compare(o Network) int {
	return cmp.Or(cmp.Compare(n.Network, o.Network), cmp.Compare(n.Bridge, o.Bridge), cmp.Compare(n.Direct, o.Direct))
}

// String gives the name of what is attached to, whatever it is.
func (n Network) String() string { return n.Network + n.Bridge + n.Direct }

// NIC is one of a guest's network interfaces.
type NIC struct {
	Network
	VLAN         int            // tag, 1 to MaxVLAN; 0: none
	Isolated     bool           // no traffic to other isolated ports of the same bridge
	CleanTraffic bool           // libvirt's filter "clean-traffic": no other MAC, IP or ARP address than its own
	Inbound      Rate           // to the guest; 0: no limit
	Outbound     Rate           // from the guest; 0: no limit
	Addresses    []netip.Prefix // static ones, each with its network's length; none: DHCP
	Gateways     []netip.Addr   // at most one of each family
	DNS          []netip.Addr
}

// Probe types. ProbeTCP is the default.
const (
	ProbeTCP     = "tcp"
	ProbeHTTP    = "http"
	ProbeConnect = "connect"
	ProbeSOCKS5  = "socks5"
)

// Probe says how to find out that the proxy works.
type Probe struct {
	Type         string // one of the Probe types
	URL          string // what to ask for through the proxy: http; with ProbeConnect and ProbeSOCKS5 https too
	Target       string // ProbeConnect and ProbeSOCKS5 without URL: HOST:PORT to be connected to
	ExpectStatus int    // with URL: the status that counts as reachable; default 204
	Credentials  string // absolute path of a file with "user:password" for the proxy; resolved; empty: none
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
	Credentials  map[string]string // of probes: the paths of their files, by key
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

// Static tells whether any of the guest's NICs has static addresses.
func (s Spec) Static() bool {
	return slices.ContainsFunc(s.Networks, func(n NIC) bool { return len(n.Addresses) > 0 })
}

// SeedInput is what the guest of this spec is seeded with in the incarnation
// named by instanceID. mac gives the address of NIC number n; it may be nil
// where only the input's ContentHash is wanted.
func (s Spec) SeedInput(instanceID string, mac func(n int) string) seed.Input {
	in := seed.Input{
		InstanceID:    instanceID,
		Hostname:      Hostname(s.Name),
		UserData:      s.UserData,
		VendorData:    s.VendorData,
		NetworkConfig: s.NetworkConf,
		GuestAgent:    s.GuestAgent,
	}
	for key, value := range s.Vars {
		if in.Vars == nil {
			in.Vars = make(map[string]string, len(s.Vars))
		}
		in.Vars[key] = string(value)
	}
	if !s.Static() {
		return in
	}
	for i, n := range s.Networks {
		nic := seed.NIC{Addresses: n.Addresses, Gateways: n.Gateways, DNS: n.DNS}
		if mac != nil {
			nic.MAC = mac(i)
		}
		in.NICs = append(in.NICs, nic)
	}
	return in
}
