package hostagent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// memTree is an image tree in memory. Its methods may be called from any
// goroutine; tests that touch its fields call them from one.
type memTree struct {
	mu     sync.Mutex
	marker observe.MarkerState
	host   string // that a foreign marker names
	away   bool   // its volume is not mounted: what shows is an empty directory
	bases  map[string]observe.Base
	incs   map[string][]observe.Incarnation
	stands map[string]string   // the base, by its sha256, of each overlay, by NAME.INSTANCE
	chains map[string][]string // what files of others stand on, by path
	broken map[string]error    // by image source: why it can not be fetched
	free   uint64              // bytes
	// pass, unless nil, is asked before each change. Its error is the change's,
	// and nothing changes.
	pass func(treeChange) error
}

// treeChange is one change of the tree. Of a base image only sha256 is set.
type treeChange struct{ what, name, instance, sha256 string }

const roomy = 100 << 30 // bytes free in a tree that is not full

func newMemTree() *memTree {
	return &memTree{
		marker: observe.MarkerAbsent,
		bases:  map[string]observe.Base{},
		incs:   map[string][]observe.Incarnation{},
		stands: map[string]string{},
		chains: map[string][]string{},
		broken: map[string]error{},
		free:   roomy,
	}
}

var errNoMarker = errors.New("image tree without marker")

func (m *memTree) check() error {
	if m.marker != observe.MarkerOK {
		return errNoMarker
	}
	return nil
}

// may tells whether a change can be made now.
func (m *memTree) may(c treeChange) error {
	if err := m.check(); err != nil || m.pass == nil {
		return err
	}
	return m.pass(c)
}

func (m *memTree) CheckMarker() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check()
}

func (m *memTree) Scan() observe.Tree {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := observe.Tree{Root: "/tree", Marker: m.marker}
	if m.marker != observe.MarkerOK {
		t.Detail = "no marker in /tree"
		t.Host = m.host
		t.Empty = m.marker == observe.MarkerAbsent && (m.away || len(m.bases)+len(m.incs) == 0)
		return t
	}
	t.Free = m.free
	t.Bases = maps.Clone(m.bases)
	t.Incarnations = map[string][]observe.Incarnation{}
	for name := range m.incs {
		t.Incarnations[name] = m.sorted(name)
	}
	return t
}

// sorted gives a name's incarnations in the order of observe.Tree.
func (m *memTree) sorted(name string) []observe.Incarnation {
	created := func(i observe.Incarnation) time.Time {
		if i.Record == nil {
			return time.Time{}
		}
		return i.Record.Created
	}
	return slices.SortedFunc(slices.Values(m.incs[name]), func(a, b observe.Incarnation) int {
		return cmp.Or(created(a).Compare(created(b)), cmp.Compare(a.Instance, b.Instance))
	})
}

func (m *memTree) ScanName(name string) []observe.Incarnation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sorted(name)
}

func (m *memTree) InitMarker() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pass != nil {
		if err := m.pass(treeChange{what: "init"}); err != nil {
			return err
		}
	}
	m.marker = observe.MarkerOK
	return nil
}

func (m *memTree) EnsureBase(_ context.Context, img spec.Image, _ func(done, total int64)) (observe.Base, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.check(), m.broken[img.Source]); err != nil {
		return observe.Base{}, err
	}
	if err := m.may(treeChange{what: "base", sha256: img.SHA256}); err != nil {
		return observe.Base{}, err
	}
	m.bases[img.SHA256] = observe.Base{SHA256: img.SHA256, Path: "/tree/base/" + img.SHA256 + ".qcow2", Format: img.Format}
	return m.bases[img.SHA256], nil
}

// at finds an incarnation, made empty when it is not there.
func (m *memTree) at(name, instance string) *observe.Incarnation {
	i := slices.IndexFunc(m.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance })
	if i < 0 {
		m.incs[name] = append(m.incs[name], observe.Incarnation{Name: name, Instance: instance})
		i = len(m.incs[name]) - 1
	}
	return &m.incs[name][i]
}

func (m *memTree) CreateOverlay(_ context.Context, name, instance string, base observe.Base, _ spec.Size) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.bases[base.SHA256]; !ok {
		return errors.New("no base " + base.SHA256)
	}
	if err := m.may(treeChange{"overlay", name, instance, base.SHA256}); err != nil {
		return err
	}
	m.at(name, instance).Overlay = true
	m.stands[name+"."+instance] = base.SHA256
	return nil
}

func (m *memTree) WriteSeed(name, instance string, _ seed.Image) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.may(treeChange{"seed", name, instance, ""}); err != nil {
		return err
	}
	m.at(name, instance).Seed = true
	return nil
}

func (m *memTree) WriteRecord(rec observe.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.may(treeChange{"record", rec.Name, rec.Instance, ""}); err != nil {
		return err
	}
	i := m.at(rec.Name, rec.Instance)
	i.Record, i.Problem = &rec, ""
	return nil
}

func (m *memTree) PrepareConsole(string) error { return m.CheckMarker() }
func (m *memTree) RemoveConsole(string) error  { return m.CheckMarker() }

func (m *memTree) RemoveIncarnation(name, instance string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removeIncarnation(name, instance)
}

func (m *memTree) removeIncarnation(name, instance string) error {
	if err := m.may(treeChange{"remove", name, instance, ""}); err != nil {
		return err
	}
	m.drop(name, instance)
	return nil
}

// drop takes an incarnation away, whoever does it.
func (m *memTree) drop(name, instance string) {
	m.incs[name] = slices.DeleteFunc(m.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance })
	delete(m.stands, name+"."+instance)
	if len(m.incs[name]) == 0 {
		delete(m.incs, name)
	}
}

func (m *memTree) Paths(name, instance string) image.Paths {
	return image.New("/tree", "host-1").Paths(name, instance)
}
