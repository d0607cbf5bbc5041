package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// devices gives every path the device 1 and the mount 1, but those that are
// listed.
func devices(other map[string]uint64) Option {
	of := func(path string) uint64 {
		if d, ok := other[path]; ok {
			return d
		}
		return 1
	}
	return func(t *Tree) {
		withDevice(func(path string, _ fs.FileInfo) uint64 { return of(path) })(t)
		withMount(func(_ *os.Root, path string) (uint64, bool) { return of(path), true })(t)
	}
}

// damage is a way in which a tree is not to be used.
type damage struct {
	name string
	do   func(t *testing.T, tree *Tree)
	want observe.MarkerState
	host string // that the marker names, as far as it can be read
}

func damages() []damage {
	at := func(tree *Tree, name string) string { return filepath.Join(tree.root, name) }
	must := func(t *testing.T, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	device := func(path string) func(*testing.T, *Tree) {
		return func(_ *testing.T, tree *Tree) { devices(map[string]uint64{path: 2})(tree) }
	}
	return []damage{
		{"root missing", func(t *testing.T, tree *Tree) { must(t, os.RemoveAll(tree.root)) }, observe.MarkerUnreadable, ""},
		{"root a file", func(t *testing.T, tree *Tree) {
			must(t, os.RemoveAll(tree.root), os.WriteFile(tree.root, nil, 0o600))
		}, observe.MarkerUnreadable, ""},
		{"root relative", func(_ *testing.T, tree *Tree) { tree.root = "tree" }, observe.MarkerUnreadable, ""},
		{"marker missing", func(t *testing.T, tree *Tree) { must(t, os.Remove(at(tree, markerFile))) }, observe.MarkerAbsent, ""},
		{"marker foreign", func(t *testing.T, tree *Tree) { plant(t, tree, markerFile, `{"version":1,"host":"host-b"}`) }, observe.MarkerForeign, "host-b"},
		{"marker cut", func(t *testing.T, tree *Tree) { plant(t, tree, markerFile, `{"version":1,"host":"host-a"`) }, observe.MarkerUnreadable, ""},
		{"marker with a tail", func(t *testing.T, tree *Tree) { plant(t, tree, markerFile, `{"version":1,"host":"host-a"}{}`) }, observe.MarkerUnreadable, ""},
		{"marker newer", func(t *testing.T, tree *Tree) { plant(t, tree, markerFile, `{"version":2,"host":"host-a"}`) }, observe.MarkerUnreadable, ""},
		{"marker huge", func(t *testing.T, tree *Tree) {
			must(t, os.Truncate(at(tree, markerFile), maxMarker+1))
		}, observe.MarkerUnreadable, ""},
		{"marker a link", func(t *testing.T, tree *Tree) {
			must(t, os.Rename(at(tree, markerFile), at(tree, "m")), os.Symlink("m", at(tree, markerFile)))
		}, observe.MarkerUnreadable, ""},
		{"marker a directory", func(t *testing.T, tree *Tree) {
			must(t, os.Remove(at(tree, markerFile)), os.Mkdir(at(tree, markerFile), 0o700))
		}, observe.MarkerUnreadable, ""},
		{"disk a link", func(t *testing.T, tree *Tree) {
			must(t, os.Rename(at(tree, diskDir), at(tree, "d")), os.Symlink("d", at(tree, diskDir)))
		}, observe.MarkerUnreadable, testHost},
		{"root on another device", device("."), observe.MarkerUnreadable, testHost},
		{"marker on another device", device(markerFile), observe.MarkerUnreadable, testHost},
		{"disk on another device", device(diskDir), observe.MarkerUnreadable, testHost},
		{"all on another device than before", func(_ *testing.T, tree *Tree) {
			withDevice(func(string, fs.FileInfo) uint64 { return 7 })(tree)
		}, observe.MarkerUnreadable, testHost},
	}
}

// Nothing is created, replaced or removed in a tree that is not known to be
// ours, and nothing is said to be missing in it.
func TestI16_NoMarkerNoChange(t *testing.T) {
	t.Parallel()
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t, devices(nil))
			incarnate(t, tree, "a", testInst)
			if err := tree.CheckMarker(); err != nil {
				t.Fatal(err)
			}
			if got := tree.Scan(); got.Marker != observe.MarkerOK || len(got.Incarnations) != 1 {
				t.Fatalf("before the damage: %+v", got)
			}
			d.do(t, tree)
			parent := filepath.Dir(tree.root)
			before := state(t, parent)
			for _, m := range mutations() {
				refused(t, m.name, m.do(t.Context(), tree, "a", testInst, image(t)), d.want)
			}
			refused(t, "CheckMarker", tree.CheckMarker(), d.want)
			got := tree.Scan()
			if got.Marker != d.want || got.Host != d.host || got.Detail == "" || len(got.Incarnations)+len(got.Bases) != 0 {
				t.Errorf("Scan = %+v, want marker %q, host %q and nothing else", got, d.want, d.host)
			}
			if diff := cmp.Diff(before, state(t, parent)); diff != "" {
				t.Errorf("the tree changed (-before +after):\n%s", diff)
			}
		})
	}
}

// image is an entry whose source is there.
func image(t *testing.T) spec.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, []byte("raw"), 0o600); err != nil {
		t.Fatal(err)
	}
	return entry(t, path, "raw")
}

func refused(t *testing.T, what string, err error, want observe.MarkerState) {
	t.Helper()
	var m *MarkerError
	if !errors.As(err, &m) || m.State != want {
		t.Errorf("%s = %v, want a *MarkerError with state %q", what, err, want)
	}
}

// Case 62: a tree that is away for a while loses nothing.
func TestI16_Case062TreeComesBack(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	incarnate(t, tree, "a", testInst)
	want := tree.Scan()
	away := tree.root + ".away"
	if err := os.Rename(tree.root, away); err != nil {
		t.Fatal(err)
	}
	if got := tree.Scan(); got.Marker != observe.MarkerUnreadable {
		t.Errorf("Scan while away = %+v", got)
	}
	if err := os.Rename(away, tree.root); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree.Scan()); diff != "" {
		t.Errorf("after it came back (-want +got):\n%s", diff)
	}
}

func TestScanTellsAnEmptyRoot(t *testing.T) {
	t.Parallel()
	tree := New(t.TempDir(), testHost)
	if got := tree.Scan(); got.Marker != observe.MarkerAbsent || !got.Empty {
		t.Errorf("empty root: %+v", got)
	}
	plant(t, tree, "a.qcow2", "")
	if got := tree.Scan(); got.Marker != observe.MarkerAbsent || got.Empty {
		t.Errorf("root with a file: %+v", got)
	}
}

func TestInitMarker(t *testing.T) {
	t.Parallel()
	mkdir := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o710); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, tree *Tree)
		ok      bool
	}{
		{"empty", func(*testing.T, *Tree) {}, true},
		{"new file system", func(t *testing.T, tree *Tree) { mkdir(t, filepath.Join(tree.root, "lost+found")) }, true},
		{"interrupted", func(t *testing.T, tree *Tree) {
			mkdir(t, filepath.Join(tree.root, baseDir))
			plant(t, tree, partName(markerFile), "{")
		}, true},
		{"twice", func(t *testing.T, tree *Tree) {
			if err := tree.InitMarker(); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"foreign file", func(t *testing.T, tree *Tree) { plant(t, tree, "notes", "") }, false},
		{"overlays without a marker", func(t *testing.T, tree *Tree) {
			mkdir(t, filepath.Join(tree.root, diskDir))
			plant(t, tree, diskDir+"/a."+testInst+".qcow2", "")
		}, false},
		{"disk a link", func(t *testing.T, tree *Tree) {
			if err := os.Symlink(t.TempDir(), filepath.Join(tree.root, diskDir)); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"root missing", func(t *testing.T, tree *Tree) { tree.root = filepath.Join(tree.root, "none") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := New(t.TempDir(), testHost)
			tt.prepare(t, tree)
			before := state(t, tree.root)
			if err := tree.InitMarker(); (err == nil) != tt.ok {
				t.Fatalf("InitMarker = %v", err)
			}
			if tt.ok {
				if err := tree.CheckMarker(); err != nil {
					t.Error(err)
				}
			} else if diff := cmp.Diff(before, state(t, tree.root)); diff != "" {
				t.Errorf("a refused root changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A directory of the tree that somebody removed holds nothing, and comes back
// when it is needed.
func TestMissingDirectoryIsEmpty(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, d := range subdirs() {
		if err := os.Remove(filepath.Join(tree.root, d)); err != nil {
			t.Fatal(err)
		}
	}
	if got := tree.Scan(); got.Marker != observe.MarkerOK || len(got.Incarnations) != 0 {
		t.Errorf("Scan = %+v", got)
	}
	if err := errors.Join(tree.RemoveIncarnation("a", testInst), tree.RemoveConsole("a")); err != nil {
		t.Error(err)
	}
	incarnateAfterMkdir(t, tree)
}

func incarnateAfterMkdir(t *testing.T, tree *Tree) {
	t.Helper()
	if err := tree.WriteRecord(testRecord("a", testInst)); err != nil {
		t.Fatal(err)
	}
	incarnate(t, tree, "a", testInst)
	if got := tree.Scan().Incarnations["a"]; len(got) != 1 || !got[0].Overlay || !got[0].Seed || got[0].Record == nil {
		t.Errorf("Scan = %+v", got)
	}
}
