package virttest

import (
	"strings"

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

// metadataRunning: it is set in the configuration and in what runs.
func (s *suite) metadataRunning() {
	d := s.domain(1)
	d.metadata = ours
	s.define(d)
	s.must(s.hv.Start(s.ctx, d.uuid))
	want := running
	want.Metadata = `<proxy host="h2"></proxy>`
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, want.Metadata))
	s.expect(d, want)
	for _, inactive := range []bool{true, false} {
		if text := s.domainXML(d, inactive); !strings.Contains(text, "h2") || strings.Contains(text, "h1") {
			s.Errorf("inactive %t: the metadata is the old one:\n%s", inactive, text)
		}
	}
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
	want := observe.RawDomain{Power: observe.PowerRunning, Metadata: `<proxy host="h2"></proxy>`}
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, want.Metadata))
	s.expect(d, want)
	want.Metadata = ""
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, ""))
	s.must(s.hv.SetMetadata(s.ctx, d.uuid, ""))
	s.expect(d, want)
	s.expectTheirs(d, true)
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expectAbsent(d)
}
