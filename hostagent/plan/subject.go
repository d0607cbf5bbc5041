package plan

import (
	"fmt"
	"net/netip"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Reasons that tests and operators rely on.
const (
	reasonTree   = "ImageTreeMissing"
	reasonInSync = "InSync"
	reasonNotYet = "NotYet" // the agent has just started
	reasonLost   = "MetadataLost"
)

// subject is one proxy while Make works on it.
type subject struct {
	name string
	uuid string
	want *source.Proxy   // nil: no source lists it
	dom  *observe.Domain // nil: absent
	incs []observe.Incarnation
	mem  Proxy

	away      bool    // no source lists it, for certain
	waiting   verdict // while that is not certain
	verdict   verdict
	addresses []observe.Address
	rejected  []observe.Rejected
	conflict  string // another proxy that claims an address of this one
	taken     string // another proxy that has a static address of this one's spec
	gone      bool   // nothing is left: forget it
	goesDown  bool   // to be changed, now or as soon as that is on disk
}

// verdict is what decide found: how the proxy stands towards its spec.
type verdict struct {
	phase   status.Phase
	synced  status.Truth
	reason  string
	message string
	next    string // the step under way or awaited, in words
}

func (p *planner) subject(name string) *subject {
	s := &subject{
		name: name,
		uuid: p.uuid(name),
		incs: p.Observed.Tree.Incarnations[name],
		mem:  p.Memory.Proxies[name],
	}
	if d, ok := p.Observed.Domains[s.uuid]; ok {
		s.dom = &d
	}
	if w, ok := p.Desired.Proxies[name]; ok && !p.mayBeShadowed(s, w.Origin) {
		s.want = &w
	}
	s.mem.bound(p.Now)
	s.mem.Generation = max(s.mem.Generation, p.Generations[name]) // another host id may have been on at it
	s.remember()
	// The count of reads that miss the name starts over whenever it is listed
	// or the source is in doubt, whatever else holds the proxy up.
	if src, ok := p.Desired.Source(p.origin(s)); s.want != nil || !ok || !src.Synced || !p.Desired.AllSeen() {
		s.mem.Absent = nil
	}
	return s
}

// mayBeShadowed tells whether the source that the proxy came from has not been
// heard of since the agent started, so that what another one says of it may not
// be what counts.
func (p *planner) mayBeShadowed(s *subject, by string) bool {
	origin := p.origin(s)
	src, configured := p.Desired.Source(origin)
	return configured && origin != by && src.Read.IsZero()
}

// spec is the spec the proxy should run; nil when none was ever good.
func (s *subject) spec() *spec.Spec {
	if s.want == nil {
		return nil
	}
	return s.want.Spec
}

func (s *subject) hash() spec.Hash {
	if s.want == nil {
		return spec.Hash{}
	}
	return s.want.Hash
}

// instance is the incarnation the domain is defined on; empty without one.
func (s *subject) instance() string {
	if s.dom == nil || s.dom.Owner == nil {
		return ""
	}
	return s.dom.Owner.Instance
}

// off tells whether the domain is there and powered off.
func (s *subject) off() bool { return s.dom != nil && s.dom.Power == observe.PowerOff }

// running tells whether the domain is there and runs.
func (s *subject) running() bool { return s.dom != nil && s.dom.Power == observe.PowerRunning }

// incarnation finds one by its instance-id.
func (s *subject) incarnation(instance string) *observe.Incarnation {
	for i := range s.incs {
		if s.incs[i].Instance == instance {
			return &s.incs[i]
		}
	}
	return nil
}

// usable finds the newest complete incarnation made for h.
func (p *planner) usable(s *subject, h spec.Hash) *observe.Incarnation {
	for i := len(s.incs) - 1; i >= 0; i-- {
		inc := &s.incs[i]
		if inc.Instance == s.instance() || s.mem.Recreate != "" && inc.Instance == s.mem.Recreate {
			break // what is older has been left: nobody wants its disk back
		}
		if !p.oursIncarnation(*inc) || !inc.Overlay {
			continue
		}
		if rh, err := spec.ParseHash(inc.Record.SpecHash); err == nil && sameIncarnation(rh, h) {
			return inc
		}
	}
	return nil
}

// remember takes over what the source says of the proxy.
func (s *subject) remember() {
	m := &s.mem
	if s.want == nil { // or its source has not been read yet
		return
	}
	m.Absent, m.Delete, m.Leaving, m.Origin = nil, false, false, s.want.Origin
	if m.Held.Kind == HoldDeletion {
		m.Held = Hold{}
	}
	if m.Released.Kind == HoldDeletion {
		m.Released = Hold{}
	}
	sp := s.want.Spec
	if sp == nil {
		return
	}
	if m.Hash != s.want.Hash {
		m.Cause = CauseOther
		if m.Own != "" && m.Own != sp.Own {
			m.Cause = CauseOwn
		}
	}
	m.Last, m.Hash, m.Own, m.SkipCleanup = sp, s.want.Hash, sp.Own, sp.SkipCleanup
	if s.current() {
		m.Cause, m.Recreate = "", ""
	}
	if m.Recreate != "" && s.instance() != "" && s.instance() != m.Recreate {
		m.Recreate = ""
	}
	if m.Cause == "" && s.dom != nil && s.dom.Owner != nil && !asHashed(s.dom.Owner.Spec, m.Hash) {
		m.Cause = CauseOther // it was current, and is not any more
	}
	for _, h := range []*Hold{&m.Held, &m.Released} {
		// A hash of another version says nothing of whether the change is still due.
		settled := m.Cause != CauseOther && s.dom != nil && s.dom.Owner != nil && s.dom.Owner.Spec.Version == m.Hash.Version
		if h.Kind == HoldChange && (h.For != m.Hash.String() || m.Cause == CauseOwn || settled) {
			*h = Hold{}
		}
	}
}

// current tells whether the domain is defined as its spec asks.
func (s *subject) current() bool {
	return s.want != nil && s.want.Spec != nil && s.dom != nil && s.dom.Owner != nil &&
		asHashed(s.dom.Owner.Spec, s.want.Hash) &&
		(s.mem.Recreate == "" || s.mem.Recreate != s.instance())
}

// asHashed tells whether a domain made from have is all that want asks for.
func asHashed(have, want spec.Hash) bool {
	return sameIncarnation(have, want) && sameMachine(have, want) && sameLive(have, want)
}

// sameIncarnation tells whether a guest made from have still is what want
// asks for. Hashes of different versions can not be compared: the guest then
// stays as it is (invariant 10).
func sameIncarnation(have, want spec.Hash) bool {
	return have.Version != want.Version || have.Incarnation == want.Incarnation
}

func sameMachine(have, want spec.Hash) bool {
	return have.Version != want.Version || have.Machine == want.Machine
}

func sameLive(have, want spec.Hash) bool {
	return have.Version != want.Version || have.Live == want.Live
}

// nics are the MACs and subnets the proxy's addresses must belong to.
func (p *planner) nics(s *subject) []observe.NIC {
	sp := s.mem.Last
	if sp == nil {
		return nil
	}
	var out []observe.NIC
	for i, n := range sp.Networks {
		out = append(out, observe.NIC{
			MAC:      domxml.MAC(p.Policy.HostID, domxml.Identity(s.name, p.Generations[s.name]), i),
			Prefixes: p.Observed.Prefixes[n.Network],
			Static:   static(n),
		})
	}
	return out
}

// scheme is how clients speak to the proxy, by the probe that its spec asks for.
func (s *subject) scheme() string {
	if s.mem.Last.Probe.Type == spec.ProbeSOCKS5 {
		return "socks5"
	}
	return "http"
}

// target is where the proxy answers; ok is false without an address.
func (s *subject) target() (netip.AddrPort, bool) {
	sp := s.mem.Last
	if sp == nil || len(s.addresses) == 0 || s.conflict != "" {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(s.addresses[0].Addr, uint16(sp.Port)), true
}

// direct is the host interface that the primary address is behind, when the NIC
// it is on is a macvtap; empty otherwise.
func (s *subject) direct() string {
	if sp := s.mem.Last; sp != nil && len(s.addresses) > 0 && s.addresses[0].NIC < len(sp.Networks) {
		return sp.Networks[s.addresses[0].NIC].Direct
	}
	return ""
}

// String says how far a fetch is.
func (p Progress) String() string {
	if p.Total <= 0 {
		return fmt.Sprintf("%d MiB", p.Done>>20)
	}
	return fmt.Sprintf("%d of %d MiB", p.Done>>20, p.Total>>20)
}
