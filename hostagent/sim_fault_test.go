package hostagent

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// faulty are the hypervisor's methods that fail now and then.
var faulty = []string{
	"ListDomains", "LookupDomain", "Define", "Start", "Shutdown", "Destroy", "Undefine", "SetAutostart", "SetMetadata",
	"SetBandwidth", "DropSaved", "Resume", "DomainXML", "Claims", "NetworkPrefixes",
}

// faultGusts are failures of the hypervisor and of the state directory.
func (s *storm) faultGusts() []gust {
	return []gust{
		{30, func(string) { s.fault(s.hv.Fail, "") }},
		{20, func(string) { s.fault(s.hv.FailAfter, " after its effect") }},
		{12, s.shortList},
		{10, func(string) {
			s.refuse.state = 1 + s.rng.IntN(3)
			s.say("%d changes of the state fail", s.refuse.state)
		}},
		{5, func(string) { s.refuse.state = 0; s.say("the state can be written") }},
	}
}

// fault makes calls of a method fail, with an error of any class, or one that
// has none.
func (s *storm) fault(how func(string, int, error), when string) {
	m := faulty[s.rng.IntN(len(faulty))]
	classes := []observe.Class{observe.Transient, observe.Disconnected, observe.Clash, observe.Unavailable, observe.Permanent}
	err := errors.New("simulated, without a class")
	if i := s.rng.IntN(len(classes) + 1); i < len(classes) {
		err = &observe.Error{Op: m, Class: classes[i], Err: errors.New("simulated")}
	}
	n := 1 + s.rng.IntN(3)
	s.say("%s fails%s, %d times: %s", m, when, n, observe.ClassOf(err))
	how(m, n, err)
}

// shortList leaves some domains out of the next lists.
func (s *storm) shortList(string) {
	var uuids []string
	for _, id := range s.ids {
		if s.one(2) {
			uuids = append(uuids, id.uuid)
		}
	}
	n := 1 + s.rng.IntN(3)
	s.say("%d short lists", n)
	s.hv.ShortList(n, uuids...)
}
