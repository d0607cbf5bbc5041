package image

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// scanner reads disk and seed, of all names or of one.
type scanner struct {
	t       *Tree
	r       *os.Root
	only    string            // a name, or empty for all
	known   map[string]record // as read earlier
	records map[string]record // as read now
	found   map[incarnation]*sighting
}

// incarnation is the identity of an observe.Incarnation.
type incarnation struct{ name, instance string }

// sighting is what was seen of one incarnation.
type sighting struct {
	observe.Incarnation
	seedSize int64
}

func (t *Tree) newScanner(r *os.Root, only string, records map[string]record) *scanner {
	s := &scanner{t: t, r: r, only: only, records: records, found: map[incarnation]*sighting{}}
	if t.cache != nil {
		s.known = t.cache.records
	}
	return s
}

// scan reads both directories. An error means that something is there and could
// not be looked at, so that nothing may be said about what is not.
func (s *scanner) scan() error {
	if err := s.dir(diskDir, s.disk); err != nil {
		return err
	}
	return s.dir(seedDir, s.seed)
}

// dir calls see for every file of ours in a directory. A temporary file makes
// its incarnation known, and nothing more.
func (s *scanner) dir(name string, see func(dir *os.Root, file, kind string, fi fs.FileInfo, i *sighting)) error {
	files, err := readNames(s.r, name)
	if err != nil || len(files) == 0 {
		return err
	}
	dir, err := s.r.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, file := range files {
		n, instance, kind, part, ok := ours(file, s.only)
		if !ok || dirOf(kind) != name {
			continue
		}
		fi, err := dir.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			return err
		}
		i := s.sighting(n, instance)
		if !part {
			see(dir, file, kind, fi, i)
		}
	}
	return nil
}

func (s *scanner) sighting(name, instance string) *sighting {
	id := incarnation{name, instance}
	i := s.found[id]
	if i == nil {
		i = &sighting{Incarnation: observe.Incarnation{Name: name, Instance: instance}}
		s.found[id] = i
	}
	return i
}

// disk sees an overlay or a record.
func (s *scanner) disk(dir *os.Root, file, kind string, fi fs.FileInfo, i *sighting) {
	switch kind {
	case KindOverlay:
		// Whatever has the name is not missing, so nothing is made in its place.
		i.Overlay = true
		if !fi.Mode().IsRegular() {
			i.Problem = file + " is not a regular file: left alone"
		}
	case KindRecord:
		got := s.record(dir, file, fi, i.Incarnation)
		s.records[file] = got
		i.Record = got.rec
		if i.Problem == "" {
			i.Problem = got.problem
		}
	}
}

// record reads a record, unless it is the one that was read before.
func (s *scanner) record(dir *os.Root, file string, fi fs.FileInfo, i observe.Incarnation) record {
	now := stampOf(fi)
	if was, ok := s.known[file]; ok && was.stamp == now {
		return was
	}
	got := record{stamp: now}
	data, err := readRegular(dir, file, fi, maxRecord)
	if err != nil {
		got.stamp = stamp{} // may pass: read again next time
	} else {
		got.rec, err = s.t.parseRecord(data, i.Name, i.Instance)
	}
	if err != nil {
		got.problem = clip("record "+file+": "+err.Error(), maxProblem)
	}
	return got
}

// seed sees a seed; its size is compared once the record is known.
func (s *scanner) seed(_ *os.Root, _, kind string, fi fs.FileInfo, i *sighting) {
	if kind == KindSeed && fi.Mode().IsRegular() {
		i.seedSize = fi.Size()
	}
}

// result gives the incarnations by name. Those without a record come first.
func (s *scanner) result() map[string][]observe.Incarnation {
	out := make(map[string][]observe.Incarnation, len(s.found))
	for _, i := range s.found {
		i.Seed = i.seedSize > 0 && (i.Record == nil || i.seedSize == i.Record.SeedSize)
		if i.Problem != "" {
			i.Record = nil
		}
		out[i.Name] = append(out[i.Name], i.Incarnation)
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b observe.Incarnation) int {
			return cmp.Or(created(a).Compare(created(b)), cmp.Compare(a.Instance, b.Instance))
		})
	}
	return out
}

func created(i observe.Incarnation) time.Time {
	if i.Record == nil {
		return time.Time{}
	}
	return i.Record.Created
}
