package plan

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Memory is what planning must remember from one call to the next. It is a
// value: Make returns a new one and leaves its argument alone.
type Memory struct {
	KeptHost
	Tree       Retry                // of InitTree
	Collect    Retry                // of Collect
	Proxies    map[string]Proxy     // by name
	Images     map[string]Retry     // by sha256
	Tombstones map[string]Tombstone // by UUID
	Unused     map[string]time.Time // since when nobody refers to a file, by sha256 or NAME.INSTANCE
	LastStart  time.Time
	Host       []status.Condition
}

// KeptHost is what of the host's memory outlasts a restart.
type KeptHost struct {
	// TreeKnown is set once a marker of this host was seen or written. From
	// then on an empty image tree is a volume that is not mounted, never a
	// fresh tree.
	TreeKnown bool `json:"tree_known"`
	// PausedAll: an operator told the agent to keep its hands off everything.
	PausedAll bool `json:"paused_all,omitempty"`
	// HostID is the id that the agent has taken on from its VMs; empty: its own.
	HostID string `json:"host_id,omitempty"`
	// SpecDir is the identity of the spec directory that was last believed.
	SpecDir string `json:"spec_dir,omitempty"`
	// Removed are the deletions begun within the last removalWindow.
	Removed []Removal `json:"removed,omitempty"`
}

// Removal is a deletion that was begun.
type Removal struct {
	Name   string    `json:"name"`
	Origin string    `json:"origin"`
	At     time.Time `json:"at"`
}

// Equal tells whether both say the same.
func (k KeptHost) Equal(o KeptHost) bool {
	same := slices.EqualFunc(k.Removed, o.Removed, func(a, b Removal) bool {
		return a.Name == b.Name && a.Origin == b.Origin && a.At.Equal(b.At)
	})
	return same && k.TreeKnown == o.TreeKnown && k.PausedAll == o.PausedAll && k.HostID == o.HostID && k.SpecDir == o.SpecDir
}

// Proxy is the memory of one proxy.
type Proxy struct {
	Kept
	Last       *spec.Spec // the latest good one: where the VM answers, while no source lists it too
	Absent     *Absence
	Stop       *Stop
	Did        Did
	Resumes    Starts // of a domain that libvirt paused
	Conditions []status.Condition
	Primary    observe.Primary // of its addresses
}

// Absence is the first of the two reads that must miss a name.
type Absence struct {
	Seq   uint64
	Since time.Time
}

// Stop is a power-off under way.
type Stop struct {
	Begun time.Time // of the drain, or of the first request where there is none
	Since time.Time // first request; zero while it drains
	Asked time.Time // latest request
}

// Did is the latest action that succeeded.
type Did struct {
	Kind     Kind
	Instance string
	At       time.Time
}

// Starts counts starts in a row that did not last.
type Starts struct {
	Last  time.Time `json:"last,omitzero"`
	Short int       `json:"short,omitempty"`
}

// Retry is the backoff after an action that failed, for that kind of action.
type Retry struct {
	Kind     Kind          `json:"kind,omitempty"`
	Failures int           `json:"failures,omitempty"`
	Next     time.Time     `json:"next,omitzero"` // not before
	Class    observe.Class `json:"class,omitempty"`
	Error    string        `json:"error,omitempty"`
	Hash     spec.Hash     `json:"hash,omitzero"` // the spec the failure belongs to
}

// Backoff bounds.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
	// refetch is the wait after an image turned out to be the wrong one.
	refetch = time.Hour
	// recollect is the wait after it could not be told who uses a file.
	recollect = time.Hour
	// steadyRun is how long a domain must run for its start to count as good.
	steadyRun = 10 * time.Minute
)

// backoff is the wait after the n-th failure in a row: exponential with a
// jitter that is a function of key, so that planning stays deterministic and
// proxies that fail together do not retry together.
func backoff(n int, key string) time.Duration {
	d := backoffMax
	if n < 10 {
		d = min(backoffMin<<max(n-1, 0), backoffMax)
	}
	h := fnv.New32a()
	h.Write([]byte(key))
	h.Write([]byte{byte(n)})
	return d*3/4 + time.Duration(h.Sum32()%1000)*(d/2)/1000
}

// next is the Retry after one more failure.
func (r Retry) next(kind Kind, err error, hash spec.Hash, key string, now time.Time) Retry {
	n := r.Failures + 1
	if r.Kind != kind {
		n = 1
	}
	return Retry{
		Kind:     kind,
		Failures: n,
		Next:     now.Add(backoff(n, key)),
		Class:    observe.ClassOf(err),
		Error:    clip(err.Error()),
		Hash:     hash,
	}
}

// maxError bounds what is remembered of an error, in bytes.
const maxError = 2000

func clip(text string) string { return text[:min(len(text), maxError)] }

// waits tells whether a failure says to wait at that time.
func (r Retry) waits(now time.Time) bool { return r.Failures > 0 && now.Before(r.Next) }

// Done returns the memory after an action ended, with its error or nil.
func (m Memory) Done(a Action, err error, now time.Time) Memory {
	m.Proxies, m.Images = maps.Clone(m.Proxies), maps.Clone(m.Images)
	switch {
	case a.Kind == FetchImage:
		m.fetched(a, err, now)
	case a.Kind == Collect:
		m.collected(a, err, now)
	case a.Kind == Disown:
		m.disowned(a.UUID)
	case a.Name != "":
		if m.Proxies == nil {
			m.Proxies = map[string]Proxy{}
		}
		m.Proxies[a.Name] = m.Proxies[a.Name].done(a, err, now)
	case err != nil:
		m.Tree = m.Tree.next(a.Kind, err, spec.Hash{}, string(a.Kind), now)
	default:
		m.Tree = Retry{}
	}
	return m
}

func (m *Memory) fetched(a Action, err error, now time.Time) {
	if err == nil {
		delete(m.Images, a.Image.SHA256)
		return
	}
	if m.Images == nil {
		m.Images = map[string]Retry{}
	}
	r := m.Images[a.Image.SHA256].next(a.Kind, err, spec.Hash{}, a.Image.SHA256, now)
	if r.Class == observe.Permanent { // a whole download that came to nothing
		r.Next = now.Add(refetch)
	}
	m.Images[a.Image.SHA256] = r
}

// collected: what was kept, because somebody refers to it, is not looked at
// again before another grace has passed.
func (m *Memory) collected(a Action, err error, now time.Time) {
	if err != nil {
		m.Collect = m.Collect.next(a.Kind, err, spec.Hash{}, string(a.Kind), now)
		m.Collect.Next = now.Add(recollect)
		return
	}
	m.Collect, m.Unused = Retry{}, maps.Clone(m.Unused)
	if m.Unused == nil { // a look has found nothing any more, before the action ended
		m.Unused = map[string]time.Time{}
	}
	for _, key := range a.files() {
		m.Unused[key] = now
	}
}

// Reconnected returns the memory after the link to libvirt came back: what
// failed because it was down need not wait any longer.
func (m Memory) Reconnected() Memory {
	m.Proxies = maps.Clone(m.Proxies)
	for name, p := range m.Proxies {
		for _, r := range p.retries() {
			if r.Class == observe.Disconnected {
				*r = Retry{}
			}
		}
		m.Proxies[name] = p
	}
	return m
}

func (p Proxy) done(a Action, err error, now time.Time) Proxy {
	r := p.retry(a.Kind)
	if err != nil {
		*r = r.next(a.Kind, err, a.Hash, a.Name+string(a.Kind), now)
		return p
	}
	p.Did = Did{Kind: a.Kind, Instance: a.Instance, At: now}
	if r.Kind == a.Kind {
		*r = Retry{}
	}
	switch a.Kind {
	case Start:
		p.Starts, p.Resumes = p.Starts.one(now), Starts{}
		p.Begun++
		if a.Spec != nil {
			p.Memory = a.Spec.Memory
		}
	case Resume:
		p.Resumes = p.Resumes.one(now)
	case Define:
		p.Starts = Starts{}
	}
	return p
}

// retry is where failures of a kind of step are kept. Two kinds may take turns,
// so that neither may make the other's failures forgotten: an image that is
// not to be had, and the start of what is there meanwhile.
func (p *Proxy) retry(k Kind) *Retry {
	switch k {
	case Start, Resume:
		return &p.Running
	case Autostart, Record, Discard:
		return &p.Tidying
	}
	return &p.Retry
}

// retries are all of them.
func (p *Proxy) retries() []*Retry { return []*Retry{&p.Retry, &p.Running, &p.Tidying} }

// one counts one more start.
func (s Starts) one(now time.Time) Starts {
	short := 0
	if !s.Last.IsZero() && now.Sub(s.Last) < steadyRun {
		short = s.Short + 1
	}
	return Starts{Last: now, Short: short}
}
