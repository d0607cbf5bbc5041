package manifest

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// Source is the manifest as a source of specs. It is safe for use by several
// goroutines, but only one may Run it.
type Source struct {
	opt    Options
	asked  chan struct{} // holds one request to read soon
	again  chan struct{} // holds one to read at once
	judged atomic.Bool   // by other rules, and not yet told to who listens

	// deciding is held while a document is judged and written, which may take
	// long; what it decides about changes under mu too, so that whoever only looks
	// waits for neither.
	deciding sync.Mutex

	mu      sync.Mutex
	taken   *taken                  // nil: none was, or not under this config
	entries map[string]source.Entry // what stands
	marks   marks
	seq     uint64
	read    time.Time // end of the last attempt since the start
	checked time.Time // end of the last that was good
	fault   *Fault    // of the last attempt; nil: it was good
	shown   *Fault    // as snapshots show it: the same text while the trouble is the same
	since   time.Time // of the fault
	failed  int       // attempts in a row
	lost    string    // what is wrong with what an earlier run kept
	skew    time.Duration
	stale   bool // as it was logged
	skewed  bool // as it was logged
}

// taken is the document that stands.
type taken struct {
	manifest Manifest
	body     []byte // as it was fetched
	key      string
	refused  bool // the rules of now do not allow it
	etag     string
	fetched  time.Time
	cached   bool // it was kept by an earlier run, and no server has confirmed it since
}

// New gives the source. It does no I/O.
func New(opt Options) *Source {
	return &Source{
		opt:   opt.withDefaults(),
		asked: make(chan struct{}, 1),
		again: make(chan struct{}, 1),
		fault: &Fault{Reason: NotFetched, Text: "the manifest has not been fetched since the agent started"},
	}
}

// Restore takes what an earlier run kept: its entries (those of other kinds are
// passed over) and the last good specs of this origin, by name. It is for before
// Run. The document is judged anew, by the rules of now; when it can not be used
// the last good specs stand.
func (s *Source) Restore(entries []state.Entry, lastGood map[string]source.Entry) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	k := readKept(entries)
	t, lost := s.judgeKept(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks, s.lost, s.entries = k.marks, clip(lost, maxFault), maps.Clone(lastGood)
	if t != nil {
		s.apply(t)
	}
}

// judgeKept judges what an earlier run kept. Without a document lost says why
// there is none, if there was one.
func (s *Source) judgeKept(k kept) (t *taken, lost string) {
	d := k.document
	if d.Number == 0 {
		return nil, k.problem
	}
	m, key, err := s.judge(d.Body)
	if err != nil {
		return nil, "the manifest kept from before is not used: " + err.Error()
	}
	t = &taken{manifest: m, body: d.Body, key: key, fetched: d.Fetched, cached: true}
	if d.Location == s.opt.Rules.Name { // another URL's tag means another body
		t.etag = d.ETag
	}
	return t, ""
}

// judge opens and decodes a body. Who calls it holds deciding.
func (s *Source) judge(body []byte) (m Manifest, key string, err error) {
	payload, key, err := s.opt.Open(body)
	if err != nil {
		return Manifest{}, "", err
	}
	if t := s.taken; t != nil && t.key == key && !t.refused && t.manifest.Digest == digestOf(payload) {
		return t.manifest, key, nil
	}
	m, err = Decode(payload, s.opt.Rules)
	return m, key, err
}

// apply makes a document the one that stands. Who calls it holds both locks.
func (s *Source) apply(t *taken) {
	s.taken, s.entries = t, map[string]source.Entry{}
	for i := range t.manifest.Specs {
		sp := &t.manifest.Specs[i]
		s.entries[sp.Name] = source.Entry{
			Name: sp.Name, File: s.opt.Rules.Name, Spec: sp, Hash: sp.Hash(), Warnings: sp.Warnings(),
		}
	}
}

// Rescan makes Run read soon, unless the server is in trouble. It does not block.
func (s *Source) Rescan() { signal(s.asked) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}

// Snapshot gives what stands now. Its Read is zero until the first attempt of
// this run has ended.
func (s *Source) Snapshot() source.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := source.Snapshot{
		Origin: source.OriginManifest, Location: s.opt.Rules.Name, Seq: s.seq, Read: s.read,
		Synced: s.fault == nil, Entries: maps.Clone(s.entries),
	}
	if snap.Entries == nil {
		snap.Entries = map[string]source.Entry{}
	}
	if s.fault != nil {
		text := s.fault.Text
		if s.shown != nil {
			text = s.shown.Text
		}
		snap.Problem = text + "; " + s.stands()
	}
	if s.lost != "" {
		snap.Ignored = []string{s.lost}
	}
	return snap
}
