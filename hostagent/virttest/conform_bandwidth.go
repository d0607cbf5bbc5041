package virttest

import (
	"encoding/xml"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// limits are those of a domain's first interface; 0 is none.
type limits struct {
	In  uint
	Out uint
}

func (s *suite) bandwidth() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 1000, 500))
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 1000, 500))
	s.expectLimits(d, true, limits{1000, 500})
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 0, 700))
	s.expectLimits(d, true, limits{0, 700})
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 0, 0))
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 0, 0))
	s.expectLimits(d, true, limits{})
	s.expect(d, off)
	if err := s.hv.SetBandwidth(s.ctx, d.uuid, "56:00:00:00:ff:ff", 1, 1); observe.ClassOf(err) != observe.Permanent {
		s.Errorf("an interface that is not there: %v, want class permanent", err)
	}
}

// bandwidthRunning: it is set in the configuration and in what runs.
func (s *suite) bandwidthRunning() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.Start(s.ctx, d.uuid))
	for _, want := range []limits{{1000, 500}, {2000, 0}, {}} {
		s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, want.In, want.Out))
		s.expectLimits(d, true, want)
		s.expectLimits(d, false, want)
	}
	s.expect(d, running)
}

func (s *suite) bandwidthTransient() {
	d := s.domain(1)
	s.must(s.hv.CreateTransient(s.ctx, s.xml(d)))
	s.must(s.hv.SetBandwidth(s.ctx, d.uuid, d.mac, 1000, 500))
	s.expectLimits(d, false, limits{1000, 500})
}

func (s *suite) expectLimits(d spec, inactive bool, want limits) {
	s.Helper()
	var doc struct {
		In struct {
			Average uint `xml:"average,attr"`
		} `xml:"devices>interface>bandwidth>inbound"`
		Out struct {
			Average uint `xml:"average,attr"`
		} `xml:"devices>interface>bandwidth>outbound"`
	}
	text := s.domainXML(d, inactive)
	s.must(xml.Unmarshal([]byte(text), &doc))
	if diff := cmp.Diff(want, limits{doc.In.Average, doc.Out.Average}); diff != "" {
		s.Errorf("limits, inactive %t (-want +got):\n%s\n%s", inactive, diff, text)
	}
}
