//go:build web

package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// wait waits until the agent's status satisfies cond, and gives it.
func (l *lane) wait(what string, cond func(status.Host) bool) (last status.Host) {
	l.Helper()
	err := l.agent.Wait(long, what, func(h status.Host) bool {
		last = h
		return cond(h)
	})
	if err != nil {
		l.Fatalf("%v\nsources: %+v\nconditions: %+v", err, last.Sources, last.Conditions)
	}
	return last
}

// runs waits until these proxies are there, no others, and are as they should.
func (l *lane) runs(names ...string) picture {
	l.Helper()
	slices.Sort(names)
	return pictureOf(l.wait("these run: "+strings.Join(names, ", "), func(h status.Host) bool {
		var there []string
		for _, p := range h.Proxies {
			if c, _ := p.Condition(status.Synced); p.IsReady() && c.Status == status.True && p.Starts > 0 && p.Next == "" {
				there = append(there, p.Name)
			}
		}
		return slices.Equal(names, there) && len(h.Proxies) == len(names)
	}))
}

// picture is what must not change of VMs that nobody touches, by name.
type picture map[string]string

func pictureOf(h status.Host) picture {
	out := picture{}
	for _, p := range h.Proxies {
		c, _ := p.Condition(status.Running)
		out[p.Name] = fmt.Sprintf("%s %s, %d starts, running %s", p.UUID, p.Instance, p.Starts, c.Status)
	}
	return out
}

// now is the picture at this moment.
func (l *lane) now() picture {
	l.Helper()
	h, err := l.agent.Status()
	if err != nil {
		l.Fatal(err)
	}
	return pictureOf(h)
}

// unchanged tells when VMs are not as they were.
func (l *lane) unchanged(what string, was picture) {
	l.Helper()
	if d := cmp.Diff(was, l.now()); d != "" {
		l.Errorf("%s: VMs changed (-before +after):\n%s", what, d)
	}
}

// pulled is what status says of the manifest.
func pulled(h status.Host) status.Source {
	for _, s := range h.Sources {
		if s.Origin == "manifest" {
			return s
		}
	}
	return status.Source{}
}

// trouble waits until status has a reason with all of these words for not
// believing the manifest, and gives it.
func (l *lane) trouble(what string, words ...string) string {
	l.Helper()
	var said string
	l.wait(what+": status says "+strings.Join(words, " … "), func(h status.Host) bool {
		s := pulled(h)
		said = strings.Join(s.Problems, "\n")
		return !s.Synced && containsAll(said, words)
	})
	return said
}

func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// healed waits until the manifest is believed.
func (l *lane) healed(what string) {
	l.Helper()
	l.wait(what+" is over", func(h status.Host) bool {
		s := pulled(h)
		return s.Synced && len(s.Problems) == 0
	})
}

// asks waits until nginx has seen n more requests that satisfy cond.
func (l *lane) asks(what string, n int, cond func(Access) bool) {
	l.Helper()
	from := len(l.Accesses())
	err := until(fmt.Sprintf("%d requests: %s", n, what), func() error {
		all := l.Accesses()
		seen := 0
		for _, a := range all[min(from, len(all)):] {
			if cond(a) {
				seen++
			}
		}
		if seen < n {
			return fmt.Errorf("%d of %v", seen, all[min(from, len(all)):])
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
}

// answered gives a condition of asks.
func answered(code int) func(Access) bool {
	return func(a Access) bool { return a.Status == code }
}

// held waits for a hold of this kind over these proxies, and gives its digest.
func (l *lane) held(kind string, names ...string) string {
	l.Helper()
	var digest string
	l.wait("held: "+strings.Join(names, ", "), func(h status.Host) bool {
		for _, hold := range h.Holds {
			slices.Sort(hold.Proxies)
			if hold.Kind == kind && slices.Equal(hold.Proxies, names) {
				digest = hold.Digest
			}
		}
		return digest != ""
	})
	return digest
}

// proxyOf gives a proxy's status.
func proxyOf(h status.Host, name string) status.Proxy {
	i := slices.IndexFunc(h.Proxies, func(p status.Proxy) bool { return p.Name == name })
	if i < 0 {
		return status.Proxy{}
	}
	return h.Proxies[i]
}
