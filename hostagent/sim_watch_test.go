package hostagent

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// watcher keeps books of its own, by which it tells whether promises are kept:
// of what the agent was told, what is on disk, what was ordered and what it did.
type watcher struct {
	reads, steps int

	// Since the agent booted.
	sight   sight
	snaps   map[string]source.Snapshot      // by origin, as they were told
	misses  map[string]map[string][]absence // by origin, name: reads in a row without it
	leaving map[string]time.Time            // since when it is shown as leaving
	asked   map[string]bool                 // to power off, since it leaves
	lastGo  time.Time                       // of the latest start

	// For as long as the storm lasts.
	disk      map[state.Kind]map[string]json.RawMessage
	orders    map[uint64]given
	digests   []string // of holds, as they were shown
	resumed   map[string]uint64
	paused    map[string]bool
	pausedAll bool
	ordered   map[string]bool     // to be deleted
	left      map[string]bool     // UUIDs that may have been abandoned by order
	anew      map[string][]string // instances that may be replaced by order
	replaced  map[string]bool     // instances that were
	mustGo    map[string]string   // and that have to, by UUID
	released  map[plan.HoldKind]map[string]string
	held      map[string]string    // changes that are held: the hash they lead to
	heldAway  map[string]bool      // deletions that are held
	skip      map[string]bool      // its spec says skip_cleanup
	begun     map[string]deletion  // that was not looked at by an operator
	down      map[string]*outage   // by our doing
	started   map[string]bool      // once, of what the agent remembers
	madeOwn   map[string]string    // what its spec said by itself when it was defined, if it has said nothing else since
	about     map[string]birth     // by UUID: the incarnation it was last seen on
	disowned  map[string]int       // by UUID
	gone      map[string]bool      // instances whose overlay the world took
	used      map[string]time.Time // by sha256: when a base image was last needed
	changes   int                  // of the hypervisor, so far
}

// absence is a read of a source that does not list a name.
type absence struct {
	seq      uint64
	read, at time.Time // when the source was read, and the agent told
}

func (s *storm) newWatcher() {
	s.watcher = watcher{
		disk: map[state.Kind]map[string]json.RawMessage{}, orders: map[uint64]given{}, resumed: map[string]uint64{},
		paused: map[string]bool{}, ordered: map[string]bool{}, left: map[string]bool{}, anew: map[string][]string{},
		mustGo: map[string]string{}, replaced: map[string]bool{}, skip: map[string]bool{}, begun: map[string]deletion{}, down: map[string]*outage{},
		released: map[plan.HoldKind]map[string]string{plan.HoldDeletion: {}, plan.HoldChange: {}},
		started:  map[string]bool{}, madeOwn: map[string]string{}, about: map[string]birth{}, disowned: map[string]int{},
		held: map[string]string{}, heldAway: map[string]bool{},
		gone: map[string]bool{}, used: map[string]time.Time{},
	}
}

// watchBoot forgets what a new agent was not told.
func (s *storm) watchBoot() {
	s.sight = sight{facts: map[string]fact{}, asked: map[string]int{}, acted: map[string]int{}}
	s.snaps, s.misses = map[string]source.Snapshot{}, map[string]map[string][]absence{}
	s.leaving, s.asked, s.lastGo = map[string]time.Time{}, map[string]bool{}, time.Time{}
	clear(s.orders)
	for _, name := range simNames {
		k := s.kept(name)
		if s.skip[name] = k.SkipCleanup; k.Own != s.madeOwn[name] {
			s.madeOwn[name] = "" // the agent does not know any more
		}
	}
	for name, o := range s.down {
		if o.since = earlier(o.since, s.now); !o.fell {
			delete(s.down, name)
		}
	}
	for sha, at := range s.used {
		s.used[sha] = earlier(at, s.now)
	}
	for name, d := range s.begun {
		d.at = earlier(d.at, s.now)
		s.begun[name] = d
	}
}

// written notes what is on disk now.
func (s *storm) written(c state.Change) {
	if s.disk[c.Kind] == nil {
		s.disk[c.Kind] = map[string]json.RawMessage{}
	}
	s.disk[c.Kind][c.Key] = c.Body
	if c.Gone {
		delete(s.disk[c.Kind], c.Key)
	}
}

// buried tells whether a tombstone is on disk.
func (s *storm) buried(uuid string) bool {
	_, ok := s.disk[state.Tombstone][uuid]
	return ok
}

// treeKnown tells whether it is on disk that there is an image tree.
func (s *storm) treeKnown() bool { return s.keptHost().TreeKnown }

// keptHost is what is on disk of the host.
func (s *storm) keptHost() (k plan.KeptHost) {
	_ = json.Unmarshal(s.disk[state.Host][hostKey], &k)
	return k
}

// kept is what is on disk of a proxy.
func (s *storm) kept(name string) (k plan.Kept) {
	_ = json.Unmarshal(s.disk[state.Proxy][name], &k)
	return k
}

// hear notes what the agent is told.
func (s *storm) hear(ev Event, read int) {
	s.steps++
	s.sight.hear(ev, read, s.steps)
	src, ok := ev.(SourceRead)
	if !ok {
		return
	}
	snap := src.Snapshot
	s.snaps[snap.Origin] = snap
	if s.misses[snap.Origin] == nil {
		s.misses[snap.Origin] = map[string][]absence{}
	}
	for _, name := range simNames {
		e, listed := s.told(name)
		switch {
		case listed:
			for _, m := range s.misses {
				delete(m, name)
			}
			delete(s.begun, name)
			delete(s.heldAway, name)
			delete(s.ordered, name)
			delete(s.released[plan.HoldDeletion], name)
			if e.Spec != nil {
				if e.Spec.Own != s.madeOwn[name] {
					s.madeOwn[name] = ""
				}
				s.skip[name] = e.Spec.SkipCleanup
			}
		case !snap.Synced:
			delete(s.misses[snap.Origin], name)
		default:
			s.misses[snap.Origin][name] = append(s.misses[snap.Origin][name], absence{snap.Seq, snap.Read, s.now})
		}
	}
}

// allSeen tells whether each source was read once without doubt.
func (s *storm) allSeen() bool {
	for _, k := range s.configured() {
		if s.snaps[k.origin].Seq == 0 {
			return false
		}
	}
	return true
}

// told is what the agent was told to make of a name.
func (s *storm) told(name string) (e source.Entry, listed bool) {
	for _, k := range s.configured() {
		if e, ok := s.snaps[k.origin].Entries[name]; ok {
			return e, true
		}
	}
	return e, false
}

// toldHash is the hash of the spec that the agent was told of.
func (s *storm) toldHash(name string) string {
	e, _ := s.told(name)
	return e.Hash.String()
}

// shown is a proxy's status.
func (s *storm) shown(name string) (p status.Proxy) {
	for _, p := range s.agent.core.last.Proxies {
		if p.Name == name {
			return p
		}
	}
	return p
}

// picture is all domains as they print, by UUID.
type picture struct {
	domains map[string]string
	claims  map[string]observe.Ownership // of those that have one
	raw     map[string]observe.RawDomain // of those that may be proxies'
}

func (s *storm) picture() picture {
	p := picture{map[string]string{}, map[string]observe.Ownership{}, map[string]observe.RawDomain{}}
	uuid := ""
	for line := range strings.Lines(s.hv.String()) {
		if !strings.HasPrefix(line, " ") {
			uuid = strings.Fields(line)[1]
		}
		p.domains[uuid] += line
	}
	for _, id := range s.ids {
		d, ok := s.hv.Domain(id.uuid)
		if !ok {
			continue
		}
		p.raw[id.uuid] = d
		if o, err := domxml.DecodeOwnership(d.Metadata); err == nil {
			p.claims[id.uuid] = o
		}
	}
	return p
}

// who says whose a UUID is.
func (s *storm) who(uuid string) uuidNames {
	i := slices.IndexFunc(s.ids, func(id uuidNames) bool { return id.uuid == uuid })
	if i < 0 {
		return uuidNames{uuid: uuid}
	}
	return s.ids[i]
}
