package image

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Scan gives what the tree holds. The result is shared: it must not be changed.
//
// Scan has no error: a tree that can not be read to its end has another Marker
// than MarkerOK, a Detail, and no content. Files that are not named by our
// scheme are passed over. While no file appears or goes it costs a few system
// calls whatever the number of files; what changes within a file is seen by
// ScanName at once, by Scan within five minutes.
func (t *Tree) Scan() observe.Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.open()
	if err != nil {
		t.cache = nil
		return t.failed(err)
	}
	defer r.Close()
	if t.cache != nil && t.cache.current(r, t.now()) {
		return t.measured(r, t.cache.tree)
	}
	c, err := t.readContents(r)
	if err != nil {
		t.cache = nil
		m := t.unusable(observe.MarkerUnreadable, "%v", err)
		m.Host = t.host
		return t.failed(m)
	}
	t.cache = c
	return t.measured(r, c.tree)
}

// measured adds how much room there is now: it changes though no file appears
// or goes. What can not be told is none.
func (t *Tree) measured(r *os.Root, tree observe.Tree) observe.Tree {
	tree.Free = t.free(r)
	return tree
}

// freeBytes is what unprivileged users, as the agent and QEMU, may still write.
func freeBytes(r *os.Root) uint64 {
	dir, err := r.Open(".")
	if err != nil {
		return 0
	}
	defer dir.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// failed is the result of a scan that saw nothing it may speak of.
func (t *Tree) failed(err error) observe.Tree {
	tree := observe.Tree{
		Root:         t.root,
		Marker:       observe.MarkerUnreadable,
		Detail:       err.Error(),
		Bases:        map[string]observe.Base{},
		Incarnations: map[string][]observe.Incarnation{},
	}
	var m *MarkerError
	if errors.As(err, &m) {
		tree.Marker, tree.Host = m.State, m.Host
	}
	if tree.Marker != observe.MarkerAbsent {
		return tree
	}
	if r, err := t.openRoot(); err == nil {
		defer r.Close()
		tree.Empty, _ = isEmpty(r)
	}
	return tree
}

// readContents reads the tree. The directories' stamps are taken first: what
// changes while it reads makes the next scan read again.
func (t *Tree) readContents(r *os.Root) (*contents, error) {
	c := &contents{read: t.now(), records: map[string]record{}}
	var err error
	if c.dirs, err = stampDirs(r); err != nil {
		return nil, err
	}
	c.tree = observe.Tree{Root: t.root, Marker: observe.MarkerOK, Host: t.host}
	if c.tree.Bases, err = t.readBases(r); err != nil {
		return nil, err
	}
	s := t.newScanner(r, "", c.records)
	if err := s.scan(); err != nil {
		return nil, err
	}
	c.tree.Incarnations = s.result()
	return c, nil
}

func (t *Tree) readBases(r *os.Root) (map[string]observe.Base, error) {
	names, err := readNames(r, baseDir)
	if err != nil {
		return nil, err
	}
	bases := map[string]observe.Base{}
	for _, name := range names {
		sha256, format, ok := parseBase(name)
		if !ok {
			continue
		}
		fi, err := r.Lstat(baseDir + "/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if fi.Mode().IsRegular() {
			bases[sha256] = t.base(sha256, format)
		}
	}
	return bases, nil
}

// ScanName looks at the files of one name again and gives its incarnations, in
// the order of observe.Tree. The result is shared with later scans: it must not
// be changed. When the tree can not be read, it gives what was last known; the
// next Scan says what is wrong.
func (t *Tree) ScanName(name string) []observe.Incarnation {
	if !validName(name) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found, err := t.readName(name)
	if err != nil {
		if t.cache == nil {
			return nil
		}
		return t.cache.tree.Incarnations[name]
	}
	return found
}

func (t *Tree) readName(name string) ([]observe.Incarnation, error) {
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	records := map[string]record{}
	s := t.newScanner(r, name, records)
	if err := s.scan(); err != nil {
		return nil, err
	}
	found := s.result()[name]
	if t.cache != nil {
		t.cache.replace(name, found, records)
	}
	return found, nil
}

// ours tells whether a file name, a temporary one included, is one of ours, and
// whose; only, when not empty, is the one name of interest.
func ours(file, only string) (name, instance, kind string, part, ok bool) {
	if final, is := parsePart(file); is {
		file, part = final, true
	}
	if only != "" && !strings.HasPrefix(file, only+".") {
		return "", "", "", false, false
	}
	name, instance, kind, ok = ParseFile(file)
	return name, instance, kind, part, ok && (only == "" || name == only)
}
