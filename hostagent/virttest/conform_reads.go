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

// Elements of our namespace and of another, as a domain's XML carries them.
const (
	ours    = `<e:proxy xmlns:e="` + Namespace + `" host="h1" name="a &amp; &quot;b&quot;"><e:spec>v1:00ff</e:spec></e:proxy>`
	theirs  = `<o:vm xmlns:o="https://other.example/vm" owner="somebody"><o:note>hands off</o:note></o:vm>`
	oursOut = `<proxy host="h1" name="a &amp; &quot;b&quot;"><spec>v1:00ff</spec></proxy>` // as it is read back
)

func (s *suite) metadata() {
	d := s.domain(1)
	d.metadata = ours + theirs
	s.define(d)
	want := off
	want.Metadata = oursOut
	s.expect(d, want)

	want.Metadata = `<proxy host="h1" name="ü"><spec>v2</spec></proxy>`
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, want.Metadata))
	s.expect(d, want)
	s.expectTheirs(d, true)

	want.Metadata = ""
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, ""))
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, ""))
	s.expect(d, want)
	s.expectTheirs(d, true)

	d.metadata = ours // a definition replaces all metadata
	s.define(d)
	want.Metadata = oursOut
	s.expect(d, want)
	s.expectTheirs(d, false)

	if err := s.hv.SetMetadata(s.ctx, d.uuid, "<proxy"); err == nil {
		s.Error("broken metadata was taken")
	}
	s.expect(d, want)
}

// expectTheirs checks the element of another namespace.
func (s *suite) expectTheirs(d spec, want bool) {
	s.Helper()
	def, err := parse(s.domainXML(d, true))
	s.must(err)
	wanted, err := parseElement(theirs, "")
	s.must(err)
	got := def.metadata["https://other.example/vm"].render("")
	if want != (got == wanted.render("")) {
		s.Errorf("metadata of another namespace is %q; want it kept: %t", got, want)
	}
}

// metadataRunning: the configuration counts, not what the domain started with.
func (s *suite) metadataRunning() {
	d := s.domain(1)
	d.metadata = ours
	s.define(d)
	s.must(s.hv.Start(s.ctx, d.uuid))
	want := running
	want.Metadata = `<proxy host="h2"></proxy>`
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, want.Metadata))
	s.expect(d, want)
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	want.Power = observe.PowerOff
	s.expect(d, want)
}

func (s *suite) transient() {
	d := s.domain(1)
	d.metadata = ours + theirs
	s.must(s.hv.CreateTransient(s.ctx, s.xml(d)))
	s.expect(d, observe.RawDomain{Power: observe.PowerRunning, Metadata: oursOut})
	if err := s.hv.CreateTransient(s.ctx, s.xml(d)); err == nil {
		s.Error("a running domain was created again")
	}
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expectAbsent(d)
}

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
		{"define", func() error { return s.hv.Define(s.ctx, s.xml(d)) }},
		{"start", func() error { return s.hv.Start(s.ctx, d.uuid) }},
		{"destroy", func() error { return s.hv.Destroy(s.ctx, d.uuid) }},
		{"metadata", func() error { return s.hv.SetMetadata(s.ctx, d.uuid, "<proxy/>") }},
		{"undefine", func() error { return s.hv.Undefine(s.ctx, d.uuid) }},
	} {
		s.must(step.do())
		for heard := false; !heard; {
			select {
			case ev := <-s.hv.Events():
				heard = ev.Kind == observe.DomainChanged && ev.UUID == d.uuid
			case <-s.ctx.Done():
				s.Fatalf("no event after %s", step.name)
			}
		}
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
		if err != nil && observe.ClassOf(err) != observe.Unavailable {
			s.Errorf("%s: %v, want an answer or class unavailable", src, err)
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
		"Start": s.hv.Start(ctx, d.uuid), "Undefine": s.hv.Undefine(ctx, d.uuid), "Define": s.hv.Define(ctx, text),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, observe.ErrNoDomain) {
			s.Errorf("%s with a cancelled context gave %v", call, err)
		}
	}
	s.expect(d, off)
}
