package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// collect asks for the removal of what nobody has referred to for ImageGrace:
// base images that no config, spec, record or claim names, and overlays and
// seeds of our naming that have no record. The executor looks once more, at the
// domains of everybody, before it removes anything.
func (p *planner) collect() {
	t := p.Observed.Tree
	if t.Marker != observe.MarkerOK || !p.Observed.Libvirt.Synced || !p.Desired.AllSeen() || len(p.Observed.Unsure) > 0 {
		return // what is not used can not be told now; what was not used before may be
	}
	if !p.mayHaveGarbage() {
		p.res.Memory.Unused = nil
		return
	}
	used := p.usedFiles()
	old, now := p.Memory.Unused, map[string]time.Time{}
	a := Action{Kind: Collect, Reason: "nobody has referred to it for " + p.Policy.ImageGrace.String()}
	due := func(key string) bool {
		since, known := old[key]
		if !known || since.After(p.Now) {
			since = p.Now
		}
		now[key] = since
		end := since.Add(p.Policy.ImageGrace)
		if p.Now.Before(end) {
			p.wake(end)
			return false
		}
		return true
	}
	for _, sha := range slices.Sorted(maps.Keys(t.Bases)) {
		if !used[sha] && due(sha) {
			a.Bases = append(a.Bases, sha)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Incarnations)) {
		for _, inc := range t.Incarnations[name] {
			if key := strayKey(inc); stray(inc) && !used[key] && due(key) {
				a.Strays = append(a.Strays, inc)
			}
		}
	}
	p.res.Memory.Unused = now
	p.askCollect(a)
}

// mayHaveGarbage is quick: on most hosts there is never any.
func (p *planner) mayHaveGarbage() bool {
	configured := map[string]bool{}
	for _, img := range p.Images {
		configured[img.SHA256] = true
	}
	for sha := range p.Observed.Tree.Bases {
		if !configured[sha] {
			return true
		}
	}
	for _, incs := range p.Observed.Tree.Incarnations {
		if slices.ContainsFunc(incs, stray) {
			return true
		}
	}
	return false
}

func (p *planner) askCollect(a Action) {
	_, busy := p.Observed.Busy[""]
	switch {
	case len(a.files()) == 0 || busy || p.Memory.PausedAll:
	case p.Memory.Collect.waits(p.Now):
		p.wake(p.Memory.Collect.Next)
	default:
		p.act(a)
	}
}

// stray tells whether an incarnation has no record at all: one that is there
// and can not be read belongs to somebody.
func stray(i observe.Incarnation) bool { return i.Record == nil && i.Problem == "" }

func strayKey(i observe.Incarnation) string { return i.Name + "." + i.Instance }

// files are the keys in Memory.Unused of what Collect is about.
func (a Action) files() []string {
	out := slices.Clone(a.Bases)
	for _, i := range a.Strays {
		out = append(out, strayKey(i))
	}
	return out
}

// usedFiles are the keys of what somebody is known to refer to.
func (p *planner) usedFiles() map[string]bool {
	used := map[string]bool{}
	for _, img := range p.Images {
		used[img.SHA256] = true
	}
	for sha := range p.Observed.Fetching {
		used[sha] = true
	}
	for name, w := range p.Desired.Proxies {
		for _, sp := range []*spec.Spec{w.Spec, p.Memory.Proxies[name].Last} {
			if sp != nil {
				used[sp.Image.SHA256] = true
			}
		}
	}
	for _, incs := range p.Observed.Tree.Incarnations {
		for _, i := range incs {
			if i.Record != nil {
				used[i.Record.Base] = true
			}
			if _, busy := p.Observed.Busy[i.Name]; busy {
				used[strayKey(i)] = true
			}
		}
	}
	for _, d := range p.Observed.Domains {
		if d.Owner != nil {
			used[d.Owner.Base] = true
			used[d.Owner.Name+"."+d.Owner.Instance] = true
		}
	}
	return used
}
