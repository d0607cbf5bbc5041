package hostagent

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// birth is an incarnation with the spec it was made for.
type birth struct{ instance, hash, base string }

var diskOf = regexp.MustCompile(`/tree/disk/[^'"]*\.(i-[0-9a-z]+)\.qcow2`)

// checkState checks what is there, whoever made it so.
func (s *storm) checkState() {
	for _, name := range simNames {
		s.checkDomains(name)
	}
	s.watchUse()
}

// checkDomains checks the domains that proxies of a name have, or had.
func (s *storm) checkDomains(name string) {
	for _, id := range s.ids {
		d, there := s.hv.Domain(id.uuid)
		if !there || id.name != name {
			continue
		}
		o, err := domxml.DecodeOwnership(d.Metadata)
		claimed := err == nil && o.Host == testHost
		if claimed {
			s.checkBirth(id, birth{o.Instance, o.Spec.Incarnation, o.Base})
		}
		xml, runs := s.hv.AdminXML(id.uuid)
		if m := diskOf.FindStringSubmatch(xml); runs && m != nil {
			s.checkDisk(id, m[1], o.Instance, claimed)
		}
	}
}

// checkBirth: promise 8, the same spec keeps its incarnation for as long as that
// is intact and nobody orders another.
func (s *storm) checkBirth(id uuidNames, now birth) {
	if must, ordered := s.mustGo[id.uuid]; ordered && must != now.instance {
		s.replaced[must] = true
		delete(s.mustGo, id.uuid)
	}
	if s.replaced[now.instance] {
		s.blame("promise 8: %s is on %s again, which was made anew", id.name, now.instance)
	}
	was, known := s.about[id.uuid]
	s.about[id.uuid] = now
	if known && was.hash == now.hash && was.instance != now.instance && s.intact(id.name, was.instance) && !slices.Contains(s.anew[id.name], was.instance) {
		s.blame("promise 8: %s went from %s to %s with the same spec and all of it intact", id.name, was.instance, now.instance)
	}
}

// checkDisk: promise 8, a domain runs on the overlay that it says, and that is
// there unless somebody else took it away.
func (s *storm) checkDisk(id uuidNames, runs, says string, claimed bool) {
	if claimed && runs != says {
		s.blame("promise 8: %s runs on %s and is defined on %s", id.name, runs, says)
	}
	i := slices.IndexFunc(s.tree.incs[id.name], func(i observe.Incarnation) bool { return i.Instance == runs && i.Overlay })
	if i < 0 && !s.gone[runs] {
		s.blame("promise 8: %s runs on %s, whose overlay is gone", id.name, runs)
	}
}

// intact tells whether an incarnation has its overlay and its record.
func (s *storm) intact(name, instance string) bool {
	return slices.ContainsFunc(s.tree.incs[name], func(i observe.Incarnation) bool {
		return i.Instance == instance && i.Overlay && i.Record != nil
	})
}

// checkSecrets: promise 12, user-data is in no log, status or problem.
func (s *storm) checkSecrets() {
	text, err := json.Marshal(s.agent.Status())
	if err != nil {
		s.t.Error(err)
	}
	for what, said := range map[string]string{
		"the status": string(text), "the log": s.out.String(), "what was done": strings.Join(s.log, "\n"),
		"the problems of the state": strings.Join(s.store.Content().Problems, "\n"),
	} {
		if strings.Contains(said, canary) {
			s.blame("promise 12: user-data is in %s", what)
		}
	}
}
