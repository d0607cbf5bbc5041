package hostagent

import (
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// checkAct checks what an action changed.
func (s *storm) checkAct(a plan.Action, before picture) {
	all := s.hv.Changes()
	made := all[s.changes:]
	s.changes = len(all)
	after := s.picture()
	for uuid, was := range before.domains {
		if after.domains[uuid] != was && uuid != a.UUID {
			s.blame("promise 4: %s %s changed another domain:\n%s%s", a.Kind, a.Name, was, after.domains[uuid])
		}
	}
	if len(made) > 0 && a.Kind != plan.Disown && (s.paused[a.Name] || s.pausedAll) {
		s.blame("paused: %s %s was begun: %v", a.Kind, a.Name, made)
	}
	for _, change := range made {
		method, uuid, _ := strings.Cut(change, " ")
		if uuid != a.UUID {
			s.blame("promise 4: %s %s made another domain's %s", a.Kind, a.Name, change)
			continue
		}
		s.checkChange(a, method, before)
	}
	s.checkDomains(a.Name)
	s.watchUse()
}

// checkChange checks one change of the domain that an action is about.
func (s *storm) checkChange(a plan.Action, method string, before picture) {
	who := s.who(a.UUID)
	claim, claimed := before.claims[a.UUID]
	was, existed := before.raw[a.UUID]
	ours := claimed && claim.Host == testHost && claim.Name == who.name && claim.Generation == who.generation
	switch {
	case s.buried(a.UUID):
		s.checkBuried(a, method)
	case existed && !ours && a.Kind != plan.Adopt:
		s.blame("promise 4: %s %s changed (%s) a domain that is not ours: %+v", a.Kind, a.Name, method, was)
	case a.Kind == plan.Adopt && (ours || method != "SetMetadata"):
		s.blame("promise 4: %s %s changed (%s) what has a claim: %+v", a.Kind, a.Name, method, was)
	}
	switch method {
	case "Shutdown", "Destroy":
		if o := s.down[a.Name]; o != nil {
			o.fell = true
		}
	case "Define":
		s.madeOwn[a.Name] = a.Spec.Own
	case "Start":
		s.started[a.Name] = true
	case "Undefine":
		delete(s.about, a.UUID)
	}
}

// checkBuried: promise 5, an abandoned VM loses our claim, once, and is not
// touched otherwise.
func (s *storm) checkBuried(a plan.Action, method string) {
	s.disowned[a.UUID]++
	if a.Kind != plan.Disown || method != "SetMetadata" || s.disowned[a.UUID] > 1 {
		s.blame("promise 5: %s %s changed (%s, number %d) an abandoned VM", a.Kind, a.Name, method, s.disowned[a.UUID])
	}
}

// guestsReact has guests do what they do after a start.
func (s *storm) guestsReact(a plan.Action) {
	if d, there := s.hv.Domain(a.UUID); a.Kind == plan.Start && s.fragile[a.UUID] && there && d.Power == observe.PowerRunning {
		s.say("guest %s goes off", a.Name)
		s.hv.GuestPowerOff(a.UUID)
	}
}

// treeChanged checks a change of the image tree right before it is made.
func (s *storm) treeChanged(c treeChange) {
	switch c.what {
	case "init":
		if s.treeKnown() || len(s.tree.incs) > 0 {
			s.blame("promise 16: a new tree is made over one that was known")
		}
	case "remove":
		s.checkRemove(c.name, c.instance)
	case "remove base":
		if why := s.standsOnBase(c.sha256); why != "" {
			s.blame("promise 4: base image %s goes, which is used by %s", c.sha256[:8], why)
		}
		if since := s.now.Sub(s.used[c.sha256]); since < s.agent.core.set.Policy.ImageGrace-time.Second { // one look of the agent is many steps here
			s.blame("garbage: base image %s goes %s after it was used", c.sha256[:8], since)
		}
	}
}

// checkRemove: the files of an incarnation go only when they are ours and no
// domain needs them.
func (s *storm) checkRemove(name, instance string) {
	i := slices.IndexFunc(s.tree.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance })
	if i < 0 {
		return
	}
	inc := s.tree.incs[name][i]
	switch {
	case inc.Problem != "":
		s.blame("promise 4: files of %s %s go, whose record says: %s", name, instance, inc.Problem)
	case inc.Record != nil && (inc.Record.Abandoned || s.buried(inc.Record.UUID)):
		s.blame("promise 5: files of %s %s go, which are an abandoned VM's", name, instance)
	}
	for _, id := range s.ids {
		if id.name != name {
			continue
		}
		if xml, runs := s.hv.AdminXML(id.uuid); runs && strings.Contains(xml, instance) {
			s.blame("promise 8: files of %s %s go, on which its domain runs", name, instance)
		}
		if d, there := s.hv.Domain(id.uuid); there && d.Persistent && s.about[id.uuid].instance == instance {
			s.blame("promise 8: files of %s %s go, on which its domain is defined", name, instance)
		}
	}
}

// standsOnBase tells who needs a base image.
func (s *storm) standsOnBase(sha string) string {
	for _, incs := range s.tree.incs {
		for _, i := range incs {
			if i.Record != nil && i.Record.Base == sha {
				return "the record of " + i.Name + " " + i.Instance
			}
		}
	}
	for _, id := range s.ids {
		if d, there := s.hv.Domain(id.uuid); there && s.about[id.uuid].base == sha {
			return d.Name
		}
	}
	for file, chain := range s.tree.chains {
		if slices.Contains(chain, "/tree/base/"+sha+".qcow2") {
			return file
		}
	}
	return ""
}

// watchUse notes which base images are needed now.
func (s *storm) watchUse() {
	for sha := range s.tree.bases {
		used := s.standsOnBase(sha) != "" || sha == simImages[s.cfg.image].SHA256
		for _, name := range simNames {
			e, _ := s.told(name)
			used = used || e.Spec != nil && e.Spec.Image.SHA256 == sha
		}
		if _, known := s.used[sha]; used || !known {
			s.used[sha] = s.now
		}
	}
}
