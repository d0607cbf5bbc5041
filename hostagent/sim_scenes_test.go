package hostagent

import (
	"fmt"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// scene plays one of the things that need so much to come together that storms
// hardly ever see them. The promises are checked as ever.
func (s *storm) scene() {
	scenes := []func(){
		s.oneByOne, s.sourceEmptied, s.halfHeard, s.startedMeanwhile, s.failedRollOut, s.othersBase,
		s.clockSetBack, s.halfSaved, s.pausedMeanwhile, s.abandonedPaused,
	}
	scenes[s.rng.IntN(len(scenes))]()
}

// furnish writes plain specs of all names, as many of them as that in the
// manifest, and has them run. It tells whether all is as it should be.
func (s *storm) furnish(manifest int) bool {
	if manifest > 0 && s.cfg.one {
		return false
	}
	for _, k := range s.desks {
		clear(k.docs)
		k.inDoubt = false
	}
	for i, name := range simNames {
		k := s.desks[0]
		if i >= len(simNames)-manifest {
			k = s.desks[1]
		}
		k.docs[name] = doc{}
	}
	ready := 0
	for range 8 {
		s.readSources()
		s.let(2 * time.Minute)
		if ready = s.ready(); ready == len(simNames) || s.t.Failed() {
			break
		}
		s.operate()
	}
	return ready == len(simNames) && !s.t.Failed()
}

// ready counts the proxies that are ready, with all their files.
func (s *storm) ready() (n int) {
	for _, p := range s.agent.core.last.Proxies {
		if p.Phase == status.PhaseReady && s.intact(p.Name, p.Instance) {
			n++
		}
	}
	return n
}

// runs tells whether a proxy's domain runs.
func (s *storm) runs(name string) bool {
	d, _ := s.hv.Domain(s.agent.core.uuidOf(name))
	return d.Power == observe.PowerRunning
}

// oneByOne: promise 6, a mass of deletions is one although each comes alone; and
// only the digest that is shown lets it go.
func (s *storm) oneByOne() {
	if !s.furnish(0) {
		return
	}
	s.say("scene: specs go one by one")
	s.let(11 * time.Minute) // no earlier deletion counts any more
	for _, name := range simNames[:4] {
		delete(s.desks[0].docs, name)
		s.readSources()
		s.let(100 * time.Second)
	}
	if len(s.agent.core.last.Holds) == 0 {
		s.blame("promise 6: four of six deletions within ten minutes, and none is held")
	}
	s.order(order.Order{Verb: order.Release, Digest: "0123456789ab"})
	s.let(time.Minute)
}

// sourceEmptied: promise 6, all that a source had is held although it is few.
func (s *storm) sourceEmptied() {
	if !s.furnish(2) {
		return
	}
	s.say("scene: the manifest lists nothing any more")
	clear(s.desks[1].docs)
	s.readSources()
	s.let(2 * time.Minute)
	if !s.runs(simNames[4]) || !s.runs(simNames[5]) {
		s.blame("promise 6: the manifest lists nothing any more, and its proxies are gone")
	}
}

// halfHeard: promise 6, an edit of the config that is no mass among what one
// source has is one among all.
func (s *storm) halfHeard() {
	if !s.furnish(4) {
		return
	}
	s.say("scene: the config is edited, and the manifest is not heard of")
	s.nextCfg.memory = 640 - s.nextCfg.memory // 256 or 384
	s.boot()
	s.late = slices.DeleteFunc(s.late, func(r reply) bool { return r.what == "read "+source.OriginManifest })
	s.let(time.Minute)
	s.readSources()
	s.let(2 * time.Minute)
	if len(s.agent.core.last.Holds) == 0 {
		s.blame("promise 6: the config changed all, and nothing is held")
	}
}

// startedMeanwhile: promise 8, somebody starts a domain that is about to be
// defined on another overlay.
func (s *storm) startedMeanwhile() {
	p := s.someReady()
	if p.Name == "" {
		return
	}
	s.say("scene: %s is made anew, and an admin starts it meanwhile", p.Name)
	s.race = plan.Define
	s.order(order.Order{Verb: order.Recreate, Name: p.Name})
	s.let(10 * time.Minute)
	if s.race = ""; !s.runs(p.Name) || s.shown(p.Name).Instance == p.Instance {
		s.blame("%s is not made anew: %s", p.Name, brief(s.shown(p.Name)))
	}
}

// failedRollOut: a changed proxy that does not come back keeps the others from
// their change, whatever the budget.
func (s *storm) failedRollOut() {
	if s.budget < 2 || !s.furnish(0) {
		return
	}
	a, b := simNames[0], simNames[1]
	s.say("scene: %s does not come back from its change", a)
	uuid := s.agent.core.uuidOf(a)
	s.fragile[uuid] = true
	ran := 0
	for _, name := range []string{a, b} {
		ran = len(s.ran)
		s.desks[0].docs[name] = doc{memory: 512}
		s.readSources()
		s.let(7 * time.Minute)
	}
	if slices.Contains(s.ran[ran:], "shutdown "+b) {
		s.blame("roll-out: %s goes down for its change although %s did not come back", b, a)
	}
	s.fragile[uuid] = false
	s.order(order.Order{Verb: order.Resume, Name: a})
	s.let(15 * time.Minute)
	if !s.runs(a) || !s.shown(b).IsReady() {
		s.blame("roll-out: it does not go on: %s; %s", brief(s.shown(a)), brief(s.shown(b)))
	}
}

const layeredXML = `<domain type='test'><name>layered</name><uuid>d0000000-0000-4000-8000-ffffffffffff</uuid><memory unit='KiB'>65536</memory><os><type>hvm</type></os>` +
	`<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/other/layered.qcow2'/><target dev='vda' bus='virtio'/></disk></devices></domain>`

// othersBase: a base image that no record needs is kept for a VM of somebody
// else that stands on it.
func (s *storm) othersBase() {
	s.say("scene: a VM of somebody else stands on a base image")
	sha := fmt.Sprintf("%064x", 1<<40)
	path := "/tree/base/" + sha + ".qcow2"
	s.tree.bases[sha] = observe.Base{SHA256: sha, Path: path, Format: "qcow2"}
	s.tree.chains["/other/layered.qcow2"] = []string{path}
	s.hv.AdminDefine(layeredXML)
	s.boot() // or it would look at the tree much later
	s.let(5 * s.agent.core.set.Policy.ImageGrace / 2)
	if _, there := s.tree.bases[sha]; !there {
		s.blame("garbage: a base image is gone that a VM of somebody else stands on")
	}
}
