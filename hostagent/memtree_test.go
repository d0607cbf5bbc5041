package hostagent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

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
	bases  map[string]observe.Base
	incs   map[string][]observe.Incarnation
	broken map[string]error // by image source: why it can not be fetched
	free   uint64           // bytes
}

const roomy = 100 << 30 // bytes free in a tree that is not full

func newMemTree() *memTree {
	return &memTree{
		marker: observe.MarkerAbsent,
		bases:  map[string]observe.Base{},
		incs:   map[string][]observe.Incarnation{},
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
		t.Empty = len(m.bases)+len(m.incs) == 0
		return t
	}
	t.Free = m.free
	t.Bases = maps.Clone(m.bases)
	t.Incarnations = map[string][]observe.Incarnation{}
	for name := range m.incs {
		t.Incarnations[name] = slices.Clone(m.incs[name])
	}
	return t
}

func (m *memTree) ScanName(name string) []observe.Incarnation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.incs[name])
}

func (m *memTree) InitMarker() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marker = observe.MarkerOK
	return nil
}

func (m *memTree) EnsureBase(_ context.Context, img spec.Image, _ func(done, total int64)) (observe.Base, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.check(), m.broken[img.Source]); err != nil {
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
	m.at(name, instance).Overlay = true
	return m.check()
}

func (m *memTree) WriteSeed(name, instance string, _ seed.Image) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(name, instance).Seed = true
	return m.check()
}

func (m *memTree) WriteRecord(rec observe.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(rec.Name, rec.Instance).Record = &rec
	return m.check()
}

func (m *memTree) PrepareConsole(string) error { return m.CheckMarker() }
func (m *memTree) RemoveConsole(string) error  { return m.CheckMarker() }

func (m *memTree) RemoveIncarnation(name, instance string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.incs[name] = slices.DeleteFunc(m.incs[name], func(i observe.Incarnation) bool { return i.Instance == instance })
	if len(m.incs[name]) == 0 {
		delete(m.incs, name)
	}
	return m.check()
}

func (m *memTree) Paths(name, instance string) image.Paths {
	return image.New("/tree", "host-1").Paths(name, instance)
}
