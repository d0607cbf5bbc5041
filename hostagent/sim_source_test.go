package hostagent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// canary is in all user-data, and must be nowhere else.
const canary = "k4n4ry"

// doc is what somebody wrote about a proxy.
type doc struct {
	body            int // of the user-data
	memory          int // 0: the config's default
	rate            int // from the guest, in kB/s; 0: no limit
	hold, off, skip bool
	drain           time.Duration
	broken          bool
}

// simConfig is what the config says about all specs at once.
type simConfig struct {
	image, memory int
	one           bool // source: the directory
}

// desk is one source of specs: what it has, and what it says of that, as
// source.Dir does.
type desk struct {
	origin  string
	docs    map[string]doc
	aside   map[string]doc // what was taken away all at once
	inDoubt bool
	seq     uint64
	last    map[string]source.Entry // of the last read that was not in doubt
	pub     *publisher              // of the manifest; nil: it is the directory
}

// restore is a source that has just been started.
func (k *desk) restore(kept map[string]source.Entry) {
	k.seq, k.last = 0, map[string]source.Entry{}
	for name, e := range kept {
		e.Hash = e.Spec.Hash()
		k.last[name] = e
	}
}

// read reads the source.
func (k *desk) read(s *storm) SourceRead {
	if k.pub != nil {
		return SourceRead{k.pub.read(s)}
	}
	now, decode := s.now, s.decode
	snap := source.Snapshot{Origin: k.origin, Synced: !k.inDoubt, Problem: "simulated doubt"}
	if !k.inDoubt {
		k.seq++
		snap.Problem = ""
		entries := map[string]source.Entry{}
		for name, d := range k.docs {
			if d.broken {
				e := k.last[name]
				entries[name] = source.Entry{Name: name, File: name + ".toml", Spec: e.Spec, Hash: e.Hash, Problems: []string{name + ".toml:1:1: broken"}}
				continue
			}
			sp := decode(name, d)
			entries[name] = source.Entry{Name: name, File: name + ".toml", Spec: &sp, Hash: sp.Hash()}
		}
		k.last = entries
	}
	snap.Seq, snap.Read, snap.Entries = k.seq, now, maps.Clone(k.last)
	return SourceRead{snap}
}

// simImages are what the one image of the config has been.
var simImages = [...]spec.Image{
	{Key: "d", Source: "/d", SHA256: digest, Format: "qcow2"},
	{Key: "d", Source: "/d", SHA256: "e" + digest[1:], Format: "qcow2"},
}

// decode is a document's spec under a config.
func (s *storm) decode(name string, d doc) spec.Spec {
	sp := s.spec(name, fmt.Sprintf("#cloud-config\n# %s %d\n", canary, d.body))
	sp.Image = simImages[s.cfg.image]
	sum := sha256.Sum256(fmt.Append(nil, d.body, d.memory, d.rate))
	sp.Own = hex.EncodeToString(sum[:16])
	if d.memory == 0 {
		d.memory = s.cfg.memory
	}
	sp.Memory = spec.Size(d.memory) << 20
	sp.Hold, sp.Off, sp.SkipCleanup, sp.Drain = d.hold, d.off, d.skip, d.drain
	sp.Networks[0].Outbound = spec.Rate(d.rate) * 1000
	return sp
}

// readSources has the agent's sources read.
func (s *storm) readSources() {
	for _, k := range s.configured() {
		s.late = append(s.late, reply{"read " + k.origin, s.now, 0, func() Event { return k.read(s) }})
	}
}

// sourceGusts are what people do to specs.
func (s *storm) sourceGusts() []gust {
	return []gust{
		{90, s.edit},
		{45, s.removeSpec},
		{12, s.breakSpec},
		{6, s.empty},
		{12, s.putBack},
		{14, s.doubt},
		{15, func(string) { s.readSources() }},
		{6, s.configEdit},
		{3, s.sourceTakenOut},
	}
}

// someDesk is the directory, or now and then the manifest.
func (s *storm) someDesk() *desk {
	if s.one(s.manifests) {
		return s.desks[1]
	}
	return s.desks[0]
}

// edit writes a spec, or changes something of the one there is.
func (s *storm) edit(name string) {
	k := s.someDesk()
	d, there := k.docs[name]
	d.broken = false
	n := s.rng.IntN(17)
	if !there && n > 6 && !s.one(3) {
		n = 0
	}
	switch {
	case n < 5:
		d.body = s.rng.IntN(3)
	case n < 8:
		d.memory = 256 * s.rng.IntN(3)
	case n < 9:
		d.hold = !d.hold
	case n < 11:
		d.off = !d.off
	case n < 12:
		d.skip = !d.skip
	case n < 15:
		d.rate = s.rng.IntN(3)
	default:
		d.drain = 20*time.Second - d.drain
	}
	k.docs[name] = d
	s.say("put %s in %s: %+v", name, k.origin, d)
	s.noticed()
}

// noticed has the sources read soon, unless nobody notices.
func (s *storm) noticed() {
	if !s.one(5) {
		s.readSources()
	}
}

func (s *storm) removeSpec(name string) {
	k := s.someDesk()
	delete(k.docs, name)
	s.say("remove %s from %s", name, k.origin)
	s.noticed()
}

func (s *storm) breakSpec(name string) {
	k := s.someDesk()
	if d, there := k.docs[name]; there || s.one(3) {
		d.broken = true
		k.docs[name] = d
		s.say("break %s in %s", name, k.origin)
		s.noticed()
	}
}

// empty takes all, or nearly all, of a source's specs away at once.
func (s *storm) empty(string) {
	k := s.desks[s.rng.IntN(2)]
	spare := s.rng.IntN(2)
	for i, name := range slices.Sorted(maps.Keys(k.docs)) {
		if i >= spare {
			k.aside[name] = k.docs[name]
			delete(k.docs, name)
		}
	}
	s.say("all but %d specs of %s go away", spare, k.origin)
	s.noticed()
}

func (s *storm) putBack(string) {
	k := s.someDesk()
	maps.Copy(k.docs, k.aside)
	clear(k.aside)
	s.say("what went away is back in %s", k.origin)
	s.noticed()
}

func (s *storm) doubt(string) {
	k := s.someDesk()
	k.inDoubt = !k.inDoubt
	s.say("source %s in doubt: %v", k.origin, k.inDoubt)
	s.noticed()
}

// configEdit changes what all specs resolve to, from the next start on.
func (s *storm) configEdit(string) {
	if s.nextCfg.image = s.rng.IntN(len(simImages)); s.one(2) {
		s.nextCfg.memory = 256 + 128*s.rng.IntN(2)
	}
	s.say("the config is edited: %+v", s.nextCfg)
	if s.one(2) {
		s.boot()
	}
}

// sourceTakenOut changes which sources there are, from the next start on.
func (s *storm) sourceTakenOut(string) {
	s.nextCfg.one = !s.nextCfg.one
	s.say("the config is edited: %+v", s.nextCfg)
	if s.one(2) {
		s.boot()
	}
}
