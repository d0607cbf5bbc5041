package hostagent

import (
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Status is the whole state as of the last Step.
func (c *Core) Status(now time.Time) status.Host {
	h := status.Host{
		Host: c.set.Host, HostID: c.set.Policy.HostID, Version: c.set.Version, Time: now,
		Libvirt: c.set.URI, Tree: c.obs.Tree.Root,
		Conditions: append([]status.Condition{c.configRead()}, c.last.Host...), Images: c.last.Images, Proxies: c.last.Proxies, Counts: c.last.Counts, Holds: c.last.Holds,
	}
	h.Sources = c.sources
	return h
}

// Planned is what the last Step's planning decided, for a dry run.
func (c *Core) Planned() plan.Result { return c.last }

func sourceStatus(s source.Snapshot, m source.Merged) status.Source {
	st := status.Source{Origin: s.Origin, Location: s.Location, Synced: s.Synced, LastRead: s.Read, Proxies: len(s.Entries)}
	if s.Problem != "" && !s.Read.IsZero() {
		st.Problems = append(st.Problems, s.Problem)
	}
	st.Problems = append(st.Problems, s.Ignored...)
	for _, name := range slices.Sorted(maps.Keys(s.Entries)) {
		st.Problems = append(st.Problems, s.Entries[name].Problems...)
		if m.Proxies[name].Origin != s.Origin {
			st.Shadowed = append(st.Shadowed, name)
		}
	}
	return st
}
