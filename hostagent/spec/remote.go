package spec

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Remote is what the config lets specs use that came over the network. It says
// all that is allowed: no document can widen it, and what it is silent about is
// refused, but for the nil lists.
type Remote struct {
	Images       []string          // keys of the catalog; nil: all of it
	MachineTypes []string          // keys of the catalog; nil: all of it, and cpus with memory
	Networks     []Network         // what NICs may be attached to
	VLAN         bool              // NICs may have a tag
	Addresses    []netip.Prefix    // where static addresses may be
	ProbeHosts   []string          // that probes may ask for, beside the port of the proxy itself
	Credentials  map[string]string // that probes may use: the paths of their files, by key
	SkipCleanup  bool              // skip_cleanup may be true

	MaxProxies int  // of all specs together, at least 1
	MaxMemory  Size // of all specs together; 0: no bound
	MaxDisk    Size // of all specs together; 0: no bound
}

// Refusal is one thing that a spec may not have. It quotes no secret.
type Refusal struct {
	Key     string // path of the key: "network[0].bridge"; empty: of no one spec
	Message string // what is refused, and what would be allowed
}

// Error implements error: "key: message".
func (r Refusal) Error() string {
	if r.Key == "" {
		return r.Message
	}
	return r.Key + ": " + r.Message
}

// CheckRemote says what of a complete spec r does not allow, in the order of the
// keys of a spec; nil when it allows all.
func CheckRemote(s Spec, r Remote) []Refusal {
	var out []Refusal
	refuse := func(key, message string) {
		out = append(out, Refusal{key, message + "; [manifest.policy] of the host's config decides"})
	}
	if r.Images != nil && !slices.Contains(r.Images, s.Image.Key) {
		refuse("image", strconv.Quote(s.Image.Key)+" is not allowed from a manifest; allowed: "+list(r.Images))
	}
	switch {
	case r.MachineTypes == nil || slices.Contains(r.MachineTypes, s.MachineType):
	case s.MachineType == "":
		refuse("cpus", "cpus and memory are not allowed from a manifest; give machine_type; allowed: "+list(r.MachineTypes))
	default:
		refuse("machine_type", strconv.Quote(s.MachineType)+" is not allowed from a manifest; allowed: "+list(r.MachineTypes))
	}
	if s.Disk == 0 && r.MaxDisk != 0 {
		refuse("disk", "is the image's own size, which does not count in max_disk ("+r.MaxDisk.String()+"); give a size")
	}
	for i, n := range s.Networks {
		r.checkNIC("network["+strconv.Itoa(i)+"].", n, refuse)
	}
	r.checkProbe(s.Probe, refuse)
	if s.SkipCleanup && !r.SkipCleanup {
		refuse("skip_cleanup", "true is not allowed from a manifest; give false")
	}
	return out
}

func (r Remote) checkNIC(at string, n NIC, refuse func(key, message string)) {
	if !slices.Contains(r.Networks, n.Network) {
		key, allowed := "network", []string(nil)
		switch {
		case n.Bridge != "":
			key = "bridge"
		case n.Direct != "":
			key = "direct"
		}
		for _, a := range r.Networks {
			allowed = append(allowed, a.key()+" "+a.String())
		}
		refuse(at+key, strconv.Quote(n.Network.String())+" is not allowed from a manifest; allowed: "+list(allowed))
	}
	if n.VLAN != 0 && !r.VLAN {
		refuse(at+"vlan", "a tag is not allowed from a manifest; leave it out")
	}
	for _, p := range n.Addresses {
		if !slices.ContainsFunc(r.Addresses, func(in netip.Prefix) bool { return in.Contains(p.Addr()) }) {
			var allowed []string
			for _, in := range r.Addresses {
				allowed = append(allowed, in.String())
			}
			refuse(at+"address", p.Addr().String()+" is not allowed from a manifest; allowed: DHCP, and addresses in "+list(allowed))
		}
	}
}

// key is the key by which a NIC is attached to n.
func (n Network) key() string {
	switch {
	case n.Bridge != "":
		return "bridge"
	case n.Direct != "":
		return "direct"
	}
	return "network"
}

func (r Remote) checkProbe(p Probe, refuse func(key, message string)) {
	for _, k := range []struct{ key, host string }{{"probe.url", urlHost(p.URL)}, {"probe.target", targetHost(p.Target)}} {
		if k.host != "" && !slices.ContainsFunc(r.ProbeHosts, func(h string) bool { return strings.EqualFold(h, k.host) }) {
			refuse(k.key, "its host is not allowed from a manifest; allowed: a probe of type "+strconv.Quote(ProbeTCP)+", and the hosts "+list(r.ProbeHosts))
		}
	}
	if p.Credentials == "" {
		return
	}
	var keys []string
	for key, file := range r.Credentials {
		if file == p.Credentials {
			return
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	refuse("probe.credentials", "these are not allowed from a manifest; allowed: "+list(keys))
}

// urlHost gives the host of a probe's URL; a URL that is none has one that is in
// no list.
func urlHost(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "?"
	}
	return strings.TrimSuffix(u.Hostname(), ".")
}

func targetHost(text string) string {
	host := text[:max(strings.LastIndexByte(text, ':'), 0)]
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// list gives what is allowed, for a message.
func list(words []string) string {
	const most = 12
	switch {
	case len(words) == 0:
		return "none"
	case len(words) > most:
		return strings.Join(words[:most], ", ") + " and " + strconv.Itoa(len(words)-most) + " more"
	}
	return strings.Join(words, ", ")
}
