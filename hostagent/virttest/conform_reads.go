package virttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func (s *suite) listing() {
	var mine []string
	for n := range 6 {
		d := s.domain(n)
		if n%3 == 0 {
			d.metadata = ours
		}
		mine = append(mine, d.uuid)
		if n == 5 {
			s.must(s.hv.CreateTransient(s.ctx, s.xml(d)))
			continue
		}
		s.define(d)
		s.must(s.hv.SetAutostart(s.ctx, d.uuid, n%2 == 0))
		if n < 3 {
			s.must(s.hv.Start(s.ctx, d.uuid))
		}
	}
	all := s.list()
	var looked []observe.RawDomain
	for _, d := range all {
		one, err := s.hv.LookupDomain(s.ctx, d.UUID)
		s.must(err)
		looked = append(looked, one)
		mine = slices.DeleteFunc(mine, func(uuid string) bool { return uuid == d.UUID })
	}
	if diff := cmp.Diff(looked, all); diff != "" {
		s.Errorf("list differs from look-ups (-look-up +list):\n%s", diff)
	}
	if len(mine) > 0 || len(all) != 6+len(s.found) {
		s.Errorf("%d domains listed, want %d; missing: %v", len(all), 6+len(s.found), mine)
	}
}

// events: each change of a domain makes a hint.
func (s *suite) events() {
	d := s.domain(1)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"define", func() error { return s.hv.Define(s.ctx, s.xml(d), false) }},
		{"start", func() error { return s.hv.Start(s.ctx, d.uuid) }},
		{"destroy", func() error { return s.hv.Destroy(s.ctx, d.uuid) }},
		{"metadata", func() error { return s.hv.SetMetadata(s.ctx, d.uuid, "<proxy/>") }},
		{"undefine", func() error { return s.hv.Undefine(s.ctx, d.uuid) }},
	} {
		s.must(step.do())
		s.await(step.name, func(ev observe.Event) bool { return ev.Kind == observe.DomainChanged && ev.UUID == d.uuid })
	}
}

// await reads events up to one that is wanted.
func (s *suite) await(after string, wanted func(observe.Event) bool) {
	s.Helper()
	for {
		select {
		case ev := <-s.hv.Events():
			if wanted(ev) {
				return
			}
		case <-s.ctx.Done():
			s.Fatalf("no event after %s", after)
		}
	}
}

// lostLink: the reader is told of the loss, then that the link is back; what
// changes after that makes events again, and nothing became "absent" meanwhile.
func (s *suite) lostLink() {
	d := s.domain(1)
	s.define(d)
	connects := s.hv.Stats().Connects
	s.hv.LoseLink("conformance")
	s.await("the loss", func(ev observe.Event) bool { return ev.Kind == observe.LinkLost && ev.Detail != "" })
	if _, err := s.hv.LookupDomain(s.ctx, d.uuid); errors.Is(err, observe.ErrNoDomain) {
		s.Errorf("without a link: %v", err)
	}
	s.hv.RestoreLink()
	s.await("the loss was healed", func(ev observe.Event) bool { return ev.Kind == observe.Connected })
	s.define(d) // libvirt's test driver begins anew with each connection
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.await("start", func(ev observe.Event) bool { return ev.Kind == observe.DomainChanged && ev.UUID == d.uuid })
	if got := s.hv.Stats(); got.Connects != connects+1 || !got.Connected || got.Leaked != 0 {
		s.Errorf("stats %+v, want %d connects", got, connects+1)
	}
}

func (s *suite) addresses() {
	d := s.domain(1)
	s.define(d)
	if _, err := s.hv.Claims(s.ctx, d.uuid, observe.FromLease); observe.ClassOf(err) != observe.Unavailable {
		s.Errorf("claims of a domain that is off: %v, want class unavailable", err)
	}
	s.must(s.hv.Start(s.ctx, d.uuid))
	prefixes, err := s.hv.NetworkPrefixes(s.ctx, DefaultNetwork)
	s.must(err)
	for _, src := range observe.AddressSources {
		claims, err := s.hv.Claims(s.ctx, d.uuid, src)
		class := observe.ClassOf(err) // permanent: the domain has no channel for an agent
		if err != nil && class != observe.Unavailable && (class != observe.Permanent || src != observe.FromAgent) {
			s.Errorf("%s: %v, class %s, want an answer or class unavailable", src, err, class)
		}
		for _, c := range claims {
			if c.MAC != d.mac || c.Source != src || !prefixes[0].Contains(c.Addr) {
				s.Errorf("claim %+v, want MAC %s, source %s, an address in %s", c, d.mac, src, prefixes[0])
			}
		}
	}
	if _, err := s.hv.Claims(s.ctx, d.uuid, "rumour"); err == nil {
		s.Error("an unknown source of addresses was taken")
	}
}

func (s *suite) networks() {
	prefixes, err := s.hv.NetworkPrefixes(s.ctx, DefaultNetwork)
	s.must(err)
	if got := fmt.Sprint(prefixes); got != fmt.Sprintf("[%s]", DefaultPrefix()) {
		s.Errorf("prefixes of %s: %s", DefaultNetwork, got)
	}
	active, err := s.hv.NetworkActive(s.ctx, DefaultNetwork)
	s.must(err)
	if !active {
		s.Errorf("%s is not active", DefaultNetwork)
	}
	if _, err := s.hv.NetworkActive(s.ctx, "no-such-network"); err == nil || errors.Is(err, observe.ErrNoDomain) {
		s.Errorf("an unknown network gave %v", err)
	}
	if _, err := s.hv.NetworkPrefixes(s.ctx, "no-such-network"); err == nil || errors.Is(err, observe.ErrNoDomain) {
		s.Errorf("an unknown network gave %v", err)
	}
}

func (s *suite) host() {
	lib, hypervisor, err := s.hv.Version(s.ctx)
	s.must(err)
	if strings.Count(lib, ".") != 2 || !strings.Contains(hypervisor, " ") {
		s.Errorf("versions %q, %q", lib, hypervisor)
	}
	caps, err := s.hv.Capabilities(s.ctx)
	s.must(err)
	if !strings.Contains(caps, "<capabilities") {
		s.Errorf("capabilities %q", caps)
	}
	if stats := s.hv.Stats(); !stats.Connected || stats.Open == 0 || stats.Connects == 0 || stats.Stuck != 0 || stats.Leaked != 0 {
		s.Errorf("stats of a link that is up: %+v", stats)
	}
}

// ended: a context that is over starts nothing and is not "absent".
func (s *suite) ended() {
	d := s.domain(1)
	s.define(d)
	text := s.xml(d)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, list := s.hv.ListDomains(ctx)
	_, lookup := s.hv.LookupDomain(ctx, d.uuid)
	for call, err := range map[string]error{
		"ListDomains": list, "LookupDomain": lookup,
		"Start": s.hv.Start(ctx, d.uuid), "Undefine": s.hv.Undefine(ctx, d.uuid), "Define": s.hv.Define(ctx, text, false),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, observe.ErrNoDomain) {
			s.Errorf("%s with a cancelled context gave %v", call, err)
		}
	}
	s.expect(d, off)
}
