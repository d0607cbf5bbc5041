package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Whatever names, instance-ids and digests are, nothing outside the tree and
// nothing but the file meant is touched.
func TestI13_HostileNames(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	incarnate(t, tree, "a", testInst)
	parent := filepath.Dir(tree.root)
	if err := os.WriteFile(filepath.Join(parent, "outside."+testInst+".qcow2"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := state(t, parent)
	names := []string{"", ".", "..", "../outside", "../../outside", "/etc/passwd", "a/b", "a\x00", "a\n", "-rf", ".a", "é", "a b",
		strings.Repeat("a", 300), "a." + testInst, "../tree/disk/a"}
	instances := []string{"", "i-", "i-0123456789abcde", "i-0123456789ABCDEF", "i-0123456789abcdef0", "i-../../outside12", "x-0123456789abcdef", "i-0123456789abcde/"}
	digests := []string{"", "..", "../../outside", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("../", 21) + "a", "/etc/passwd"}
	img := image(t)
	for _, m := range mutations() {
		byName := m.name != "EnsureBase"
		byInstance := byName && !strings.HasSuffix(m.name, "Console")
		byDigest := m.name == "EnsureBase" || m.name == "CreateOverlay"
		for _, name := range names {
			if err := m.do(t.Context(), tree, name, testInst, img); byName && err == nil {
				t.Errorf("%s accepts the name %q", m.name, name)
			}
		}
		for _, instance := range instances {
			if err := m.do(t.Context(), tree, "b", instance, img); byInstance && err == nil {
				t.Errorf("%s accepts the instance-id %q", m.name, instance)
			}
		}
		for _, d := range digests {
			for _, format := range []string{"raw", "../raw"} {
				bad := spec.Image{Key: "k", Source: img.Source, SHA256: d, Format: format}
				if err := m.do(t.Context(), tree, "b", testInst, bad); byDigest && observe.ClassOf(err) != observe.Permanent {
					t.Errorf("%s with the digest %q: %v", m.name, d, err)
				}
			}
		}
		if err := tree.RemoveIncarnation("b", testInst); err != nil {
			t.Fatal(err)
		}
		if err := tree.RemoveConsole("b"); err != nil {
			t.Fatal(err)
		}
	}
	after := state(t, parent)
	if base, ok := after[tree.base(img.SHA256, "raw").Path]; ok { // EnsureBase with a good digest
		before[tree.base(img.SHA256, "raw").Path] = base
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else was touched (-before +after):\n%s", diff)
	}
	if got := tree.ScanName("../tree"); got != nil {
		t.Errorf("ScanName of a bad name = %+v", got)
	}
}

// Links that somebody planted in the tree are replaced or refused, and what
// they point at stays as it is.
func TestI13_PlantedLinks(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	base := published(t, tree, "qcow2", mib)
	other := source(t, "raw", mib)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	id := "a." + testInst
	for _, name := range []string{
		"disk/" + id + ".qcow2", "disk/" + partName(id+".qcow2"), "disk/" + id + ".json", "disk/" + partName(id+".json"),
		"seed/" + id + ".iso", "seed/" + partName(id+".iso"), "console/a.log",
		"base/" + other.SHA256 + ".raw", "base/" + partName(other.SHA256+".raw"),
	} {
		if err := os.Symlink(outside, filepath.Join(tree.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := state(t, outside)
	if got := tree.Scan().Incarnations["a"]; len(got) != 1 || !got[0].Overlay || got[0].Seed || got[0].Record != nil || got[0].Problem == "" {
		t.Errorf("Scan = %+v", got)
	}
	if _, err := tree.EnsureBase(t.Context(), other, nil); err == nil {
		t.Error("a link passes for a base")
	}
	if err := tree.CreateOverlay(t.Context(), "a", testInst, base, 0); err == nil {
		t.Error("a link passes for an overlay")
	}
	for _, m := range mutations()[2:] {
		if err := m.do(t.Context(), tree, "a", testInst, other); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if err := tree.CreateOverlay(t.Context(), "a", testInst, base, 0); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, state(t, outside)); diff != "" {
		t.Errorf("a link was followed (-before +after):\n%s", diff)
	}
}

// Removing takes the files of one incarnation or one console log, and no other
// file, however much alike its name is.
func TestI04_RemoveTakesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, name := range []string{"a", "a.b", "ab", "a-1"} {
		incarnate(t, tree, name, testInst)
		incarnate(t, tree, name, otherInst)
	}
	gone := []string{
		"disk/" + partName("a."+testInst+".qcow2"), "disk/" + partName("a."+testInst+".json"), "seed/" + partName("a."+testInst+".iso"),
		"console/a.log.0", "console/a.log.12",
	}
	strangers := []string{
		"notes.txt", "disk/a", "disk/a.qcow2", "disk/a." + testInst, "disk/a." + testInst + ".qcow2.bak", "disk/a." + testInst + ".iso",
		"disk/A." + testInst + ".qcow2", "disk/.a.qcow2.part", "seed/a.iso", "seed/a." + testInst + ".qcow2",
		"base/" + digest(nil) + ".qcow2", "base/" + partName(digest(nil)+".qcow2"), "base/a." + testInst + ".qcow2",
		"console/a.log.bak", "console/a.log.", "console/a.log.1x", "console/a.log.0.log", "console/a.log.0000", "console/a.logs",
	}
	for _, f := range append(gone, strangers...) {
		plant(t, tree, f, f)
	}
	want := state(t, tree.root)
	own := tree.Paths("a", testInst)
	for _, path := range []string{own.Overlay, own.Seed, own.Record, own.Console} {
		delete(want, path)
	}
	for _, f := range gone {
		delete(want, filepath.Join(tree.root, f))
	}
	for range 2 { // the second time everything is gone already
		if err := tree.RemoveIncarnation("a", testInst); err != nil {
			t.Error(err)
		}
		if err := tree.RemoveConsole("a"); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, state(t, tree.root)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A fetch clears what interrupted fetches left, and nothing else.
func TestI04_SweepTakesOnlyParts(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	stale := "base/" + partName(digest([]byte("gone"))+".raw")
	keep := []string{"base/.notes.part", "base/notes", "base/" + digest([]byte("other")) + ".raw.bak", "base/." + digest(nil) + ".vmdk.part"}
	for _, f := range append(keep, stale) {
		plant(t, tree, f, "")
	}
	published(t, tree, "raw", mib)
	if _, err := os.Lstat(filepath.Join(tree.root, stale)); !os.IsNotExist(err) {
		t.Errorf("%s: %v", stale, err)
	}
	for _, f := range keep {
		if _, err := os.Lstat(filepath.Join(tree.root, f)); err != nil {
			t.Error(err)
		}
	}
}

func TestParseFile(t *testing.T) {
	t.Parallel()
	type result struct {
		Name, Instance, Kind string
		OK                   bool
	}
	tests := map[string]result{
		"a." + testInst + ".qcow2":         {"a", testInst, KindOverlay, true},
		"a.b-c_D." + testInst + ".json":    {"a.b-c_D", testInst, KindRecord, true},
		"a.qcow2." + testInst + ".iso":     {"a.qcow2", testInst, KindSeed, true},
		"a.log":                            {"a", "", KindConsole, true},
		"a.log.log":                        {"a.log", "", KindConsole, true},
		"a~1.log":                          {"a~1", "", KindConsole, true},
		"a~01.log":                         {},
		"a~.log":                           {},
		"~1.log":                           {},
		"a.log.0":                          {},
		"a.qcow2":                          {},
		testInst + ".qcow2":                {},
		"." + testInst + ".qcow2":          {},
		"a" + testInst + ".qcow2":          {},
		".a." + testInst + ".qcow2":        {},
		"a." + testInst + ".QCOW2":         {},
		"a.i-0123456789abcdeF.qcow2":       {},
		"a.i-0123456789abcdef0.qcow2":      {},
		"a/b." + testInst + ".qcow2":       {},
		"a." + testInst + ".qcow2.part":    {},
		"a." + testInst + ".log":           {}, // no proxy is called like that
		strings.Repeat("a", 300) + ".log":  {},
		partName("a." + testInst + ".iso"): {},
		"":                                 {},
		".log":                             {},
	}
	for file, want := range tests {
		var got result
		got.Name, got.Instance, got.Kind, got.OK = ParseFile(file)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseFile(%q) (-want +got):\n%s", file, diff)
		}
	}
}

// FuzzParseFile checks that what ParseFile accepts is what Paths gives.
func FuzzParseFile(f *testing.F) {
	f.Add("a." + testInst + ".qcow2")
	f.Add("a.b.log")
	f.Fuzz(func(t *testing.T, file string) {
		name, instance, kind, ok := ParseFile(file)
		if !ok {
			return
		}
		p := New("/r", testHost).Paths(name, instance)
		all := map[string]string{KindOverlay: p.Overlay, KindRecord: p.Record, KindSeed: p.Seed, KindConsole: p.Console}
		if want := filepath.Join("/r", dirOf(kind), file); all[kind] != want {
			t.Errorf("ParseFile(%q) = %q, %q, %q; Paths gives %q", file, name, instance, kind, all[kind])
		}
	})
}
