package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Make decides over all proxies at once. At most one action per proxy is under
// way at a time; a proxy that has one gets no other.
func Make(in Input) Result {
	p := &planner{
		Input:  in,
		byName: map[string]string{},
		images: map[string]spec.Image{},
		res:    Result{Memory: in.Memory},
	}
	p.records = p.buriedRecords()
	p.strange = StrangeHosts(in.Policy.HostID, in.Observed)
	p.res.Memory.Proxies = make(map[string]Proxy, len(in.Memory.Proxies)) // filled by conclude
	if in.Observed.Tree.Marker == observe.MarkerOK {
		p.res.Memory.TreeKnown = true
	}
	subjects := p.subjects()
	p.initTree()
	for _, s := range subjects {
		p.confirm(s)
	}
	p.hold(subjects)
	p.countDown(subjects)
	p.promise(subjects)
	p.claimStatic(subjects)
	p.disown()
	for _, s := range subjects {
		if p.abandonUnlisted(s); s.gone {
			continue
		}
		p.decide(s)
		s.brokenSpec()
	}
	p.settleConflicts(subjects)
	for _, s := range subjects {
		p.conclude(s)
	}
	p.fetchImages()
	p.collect()
	p.hostConditions(subjects)
	return p.res
}

// planner holds one Make call's work.
type planner struct {
	Input
	byName map[string]string // domain name -> UUID
	images map[string]spec.Image
	res    Result

	records  map[string]bool // UUIDs that records say were abandoned
	leaving  string          // the name of the VM that this call has disowned
	strange  []string        // host ids that tell of a change of this host's
	rollout  rollout
	promised spec.Size // memory of proxies that have just started
}

// subjects lists every name that is desired, owned or in the image tree, in
// order, and counts the domains of others.
func (p *planner) subjects() []*subject {
	names := map[string]bool{}
	for name := range p.Desired.Proxies {
		names[name] = true
	}
	for name, incs := range p.Observed.Tree.Incarnations {
		if slices.ContainsFunc(incs, p.oursIncarnation) {
			names[name] = true
		}
	}
	for name := range p.Memory.Proxies { // it may be that nothing else can be seen
		names[name] = true
	}
	for uuid, d := range p.Observed.Domains {
		p.byName[d.Name] = uuid
		name, ours := p.ours(d)
		switch {
		case ours:
			names[name] = true
			p.res.Counts.Managed++
		case p.buried(uuid):
			p.res.Counts.Abandoned++
		default:
			p.res.Counts.Foreign++
		}
	}
	var out []*subject
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, p.subject(name))
	}
	return out
}

// ours tells whether a domain is this host's, by its claim and by the UUID
// that the claimed name must have: a clone that carries a copy of our
// metadata has another UUID and is foreign.
func (p *planner) ours(d observe.Domain) (name string, ok bool) {
	if d.Owner == nil || d.Owner.Host != p.Policy.HostID {
		return "", false
	}
	return d.Owner.Name, d.UUID == p.UUID(domxml.Identity(d.Owner.Name, d.Owner.Generation)) && !p.buried(d.UUID)
}

func (p *planner) oursIncarnation(i observe.Incarnation) bool {
	return i.Record != nil && i.Record.Host == p.Policy.HostID && i.Record.Name == i.Name &&
		i.Record.UUID == p.uuid(i.Name) && !p.buried(i.Record.UUID)
}

// initTree makes a fresh image tree usable. An empty directory is fresh only
// when this agent never had a tree and owns no domain; otherwise it is a mount
// point without its volume.
func (p *planner) initTree() {
	t := p.Observed.Tree
	if t.Marker != observe.MarkerAbsent || !t.Empty || p.Memory.TreeKnown || !p.Observed.Libvirt.Synced || p.Memory.PausedAll {
		return
	}
	for _, d := range p.Observed.Domains {
		if d.Owner != nil || d.ClaimErr != "" {
			return
		}
	}
	if _, busy := p.Observed.Busy[""]; busy {
		return
	}
	if r := p.Memory.Tree; r.Failures > 0 && p.Now.Before(r.Next) {
		p.wake(r.Next)
		return
	}
	p.act(Action{Kind: InitTree, Reason: "image tree is empty and new"})
}

// fetchImages asks for each base image that a proxy waits for.
func (p *planner) fetchImages() {
	if p.Memory.PausedAll {
		return
	}
	for _, sha := range slices.Sorted(maps.Keys(p.images)) {
		if _, under := p.Observed.Fetching[sha]; under {
			continue
		}
		r := p.res.Memory.Images[sha]
		if r.Failures > 0 && p.Now.Before(r.Next) {
			p.wake(r.Next)
			continue
		}
		p.act(Action{Kind: FetchImage, Image: p.images[sha], Reason: "base image is not in the tree"})
	}
}

func (p *planner) act(a Action) { p.res.Actions = append(p.res.Actions, a) }

// wake asks for another call at t.
func (p *planner) wake(t time.Time) {
	if p.res.Wake.IsZero() || t.Before(p.res.Wake) {
		p.res.Wake = t
	}
}

// hostConditions fills what concerns the host as a whole.
func (p *planner) hostConditions(subjects []*subject) {
	cs := []status.Condition{
		p.libvirtCondition(), p.treeCondition(), p.sourcesCondition(),
		p.heldCondition(), p.rolloutCondition(subjects), p.actingCondition(),
	}
	p.res.Host = p.since("", p.Memory.Host, cs)
	p.res.Memory.Host = p.res.Host
	p.res.Images = p.imageStatus()
}

func (p *planner) libvirtCondition() status.Condition {
	c := status.Condition{Type: status.LibvirtConnected}
	switch l := p.Observed.Libvirt; {
	case l.Synced && l.Degraded != "":
		c.Status, c.Reason = status.False, "LibvirtDegraded"
		c.Message = l.Degraded + "; what else there is works on; restart libvirtd (virtqemud) if it stays so, the VMs run on"
	case l.Synced:
		c.Status, c.Reason = status.True, "Listed"
	case !l.Tried:
		c.Status, c.Reason, c.Message = status.Unknown, reasonNotYet, l.Detail
	default:
		c.Status, c.Reason, c.Message = status.False, "CannotSee", l.Detail
	}
	return c
}

func (p *planner) treeCondition() status.Condition {
	c := status.Condition{Type: status.ImageTree}
	switch t := p.Observed.Tree; t.Marker {
	case observe.MarkerOK:
		c.Status, c.Reason = status.True, "MarkerFound"
	case "":
		c.Status, c.Reason, c.Message = status.Unknown, reasonNotYet, t.Detail
	case observe.MarkerAbsent:
		if t.Empty && !p.Memory.TreeKnown && p.Memory.Tree.Failures == 0 {
			c.Status, c.Reason, c.Message = status.Unknown, reasonNotYet, "it is empty and new"
			break
		}
		fallthrough
	default:
		c.Status, c.Reason, c.Message = status.False, reasonTree, t.Detail
		if len(p.strange) > 0 {
			c.Reason, c.Message = "HostIDChanged", p.hostIDMessage()
		}
		if p.Memory.Tree.Failures > 0 {
			c.Message = p.Memory.Tree.Error
		}
	}
	return c
}

func (p *planner) sourcesCondition() status.Condition {
	c := status.Condition{Type: status.SpecsRead, Status: status.True, Reason: "Read"}
	for _, s := range p.Desired.Sources {
		switch {
		case s.Synced:
		case s.Read.IsZero() && c.Status == status.True:
			c.Status, c.Reason, c.Message = status.Unknown, reasonNotYet, s.Problem
		case !s.Read.IsZero():
			c.Status, c.Reason, c.Message = status.False, "SourceInDoubt", s.Problem
		}
	}
	return c
}

func (p *planner) imageStatus() []status.Image {
	var out []status.Image
	for _, key := range slices.Sorted(maps.Keys(p.Images)) {
		img := p.Images[key]
		st := status.Image{Key: key, SHA256: img.SHA256, State: "unused"}
		if _, ok := p.Observed.Tree.Bases[img.SHA256]; ok {
			st.State = "ready"
		} else if pr, ok := p.Observed.Fetching[img.SHA256]; ok {
			st.State, st.Detail = "fetching", pr.String()
		} else if r := p.res.Memory.Images[img.SHA256]; r.Failures > 0 {
			st.State, st.Detail = "failed", r.Error
		}
		out = append(out, st)
	}
	return out
}
