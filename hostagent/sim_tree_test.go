package hostagent

import (
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// treeGusts are what befalls the image tree.
func (s *storm) treeGusts() []gust {
	return []gust{
		{10, s.mount},
		{6, s.file("overlay", func(i *observe.Incarnation) { i.Overlay = false })},
		{8, s.file("seed", func(i *observe.Incarnation) { i.Seed = false })},
		{5, s.file("record", func(i *observe.Incarnation) { i.Record = nil })},
		{4, s.file("record's content", func(i *observe.Incarnation) { i.Record, i.Problem = nil, "it can not be read" })},
		{6, s.stray},
		{4, s.straysBase},
		{4, func(string) {
			s.tree.free = uint64(s.rng.IntN(2)) * roomy
			s.say("the tree has %d MiB free", s.tree.free>>20)
		}},
		{8, func(string) { s.refuse.tree = 1 + s.rng.IntN(3); s.say("%d changes of the tree fail", s.refuse.tree) }},
		{5, s.imageGone},
	}
}

// mount takes the image tree's volume away, or brings it back.
func (s *storm) mount(string) {
	switch m := &s.tree.marker; {
	case *m == observe.MarkerOK && s.treeKnown():
		*m = []observe.MarkerState{observe.MarkerAbsent, observe.MarkerUnreadable}[s.rng.IntN(2)]
		s.tree.away = s.one(2)
	case *m == observe.MarkerAbsent && s.treeKnown() || *m == observe.MarkerUnreadable:
		*m, s.tree.away = observe.MarkerOK, false
	}
	s.say("the tree's marker: %s, volume away: %v", s.tree.marker, s.tree.away)
}

// file makes a gust of what is lost of an incarnation.
func (s *storm) file(what string, lose func(*observe.Incarnation)) func(string) {
	return func(name string) {
		incs := s.tree.incs[name]
		if len(incs) == 0 {
			return
		}
		i := s.rng.IntN(len(incs))
		lose(&incs[i])
		s.gone[incs[i].Instance] = !incs[i].Overlay
		s.say("the %s of %s %s is lost", what, name, incs[i].Instance)
		if incs[i].Record == nil && incs[i].Problem == "" && !incs[i].Overlay && !incs[i].Seed {
			s.tree.drop(name, incs[i].Instance)
		}
	}
}

// stray puts files there that nobody has a record of: an overlay, or something
// with a record that is another host's.
func (s *storm) stray(name string) {
	if !s.treeKnown() {
		return
	}
	s.foreign++
	inc := observe.Incarnation{Name: name, Instance: fmt.Sprintf("i-57ay%012d", s.foreign), Overlay: s.one(2), Seed: true}
	if s.one(3) {
		inc.Problem = "it belongs to another host: left alone"
	}
	s.tree.incs[name] = append(s.tree.incs[name], inc)
	if inc.Overlay {
		s.tree.stands[name+"."+inc.Instance] = simImages[0].SHA256
	}
	s.say("stray files: %+v", inc)
}

// straysBase puts a base image there that no config knows.
func (s *storm) straysBase(string) {
	if s.tree.marker == observe.MarkerOK {
		s.foreign++
		sha := fmt.Sprintf("%064x", s.foreign)
		s.tree.bases[sha] = observe.Base{SHA256: sha, Path: "/tree/base/" + sha + ".qcow2", Format: "qcow2"}
		s.say("a base image that nobody knows")
	}
}

// imageGone makes an image impossible to fetch, or possible again.
func (s *storm) imageGone(string) {
	if len(s.tree.broken) > 0 {
		clear(s.tree.broken)
	} else {
		s.tree.broken["/d"] = errSimulated
	}
	s.say("images that can not be fetched: %d", len(s.tree.broken))
}
