package image

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// overlay makes an incarnation's overlay and seed; its record only when wanted.
func overlay(t testing.TB, tree *Tree, name string, base observe.Base, recorded bool) {
	t.Helper()
	err := errors.Join(tree.CreateOverlay(t.Context(), name, testInst, base, 0), tree.WriteSeed(name, testInst, testSeed()))
	if recorded {
		rec := testRecord(name, testInst)
		rec.Base, rec.Format = base.SHA256, base.Format
		err = errors.Join(err, tree.WriteRecord(rec))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func stray(name string) observe.Incarnation {
	return observe.Incarnation{Name: name, Instance: testInst}
}

// named is somebody who refers to the files with these names.
func named(files ...string) func(string) (bool, error) {
	return func(path string) (bool, error) { return slices.Contains(files, filepath.Base(path)), nil }
}

// leaves checks that exactly these paths went.
func leaves(t *testing.T, tree *Tree, before map[string]string, gone, removed []string) {
	t.Helper()
	for _, path := range gone {
		delete(before, path)
	}
	if diff := cmp.Diff(before, state(t, tree.root)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	slices.Sort(gone)
	slices.Sort(removed)
	if diff := cmp.Diff(gone, removed); diff != "" {
		t.Errorf("said to be removed (-want +got):\n%s", diff)
	}
}

// Every way to need a base or an overlay keeps it; what nobody needs goes, and
// nothing else.
func TestI04_CollectTakesOnlyWhatNobodyNeeds(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	bases := map[string]observe.Base{}
	for i, use := range []string{"recorded", "unrecorded", "unreadable", "by hand", "by a link", "referred", "unused", "below", "stranger"} {
		format := formats()[i%2]
		bases[use] = published(t, tree, format, int64(i+1)*mib)
	}
	overlay(t, tree, "recorded", bases["recorded"], true)
	overlay(t, tree, "unrecorded", bases["unrecorded"], false)
	overlay(t, tree, "unreadable", bases["unreadable"], false)
	plant(t, tree, "disk/unreadable."+testInst+".json", "{")
	for _, name := range []string{"gone", "used-disk", "used-seed", "has-record", "carries"} {
		overlay(t, tree, name, bases["unused"], name == "has-record")
	}
	abandoned := testRecord("has-record", testInst)
	abandoned.Base, abandoned.Abandoned = bases["stranger"].SHA256, true
	if err := tree.WriteRecord(abandoned); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tree.root, diskDir)
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", bases["by hand"].Format, "-b", "../base/"+filepath.Base(bases["by hand"].Path), "copy.qcow2")
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(bases["by a link"].Path, alias); err != nil {
		t.Fatal(err)
	}
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", bases["by a link"].Format, "-b", alias, "other")
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "carries."+testInst+".qcow2", "carries.snapshot")
	for _, f := range []string{"disk/notes.txt", "base/notes", "disk/x.qcow2.bak", "seed/y.iso"} {
		plant(t, tree, f, "")
	}
	part := "base/" + partName(digest(nil)+".raw")
	plant(t, tree, part, "half")

	gone := []string{bases["below"].Path, tree.Paths("gone", testInst).Overlay, tree.Paths("gone", testInst).Seed}
	before := state(t, tree.root)
	delete(before, filepath.Join(tree.root, part))
	var all []string
	for _, b := range bases {
		all = append(all, b.SHA256)
	}
	strays := []observe.Incarnation{stray("gone"), stray("used-disk"), stray("used-seed"), stray("has-record"), stray("unreadable"), stray("carries"), stray("absent")}
	refer := named(filepath.Base(bases["referred"].Path), "used-disk."+testInst+".qcow2", "used-seed."+testInst+".iso")
	for range 2 {
		removed, err := tree.Collect(t.Context(), all, strays, refer)
		if err != nil {
			t.Error(err)
		}
		leaves(t, tree, before, gone, removed)
		gone = nil
	}
}

// What can not be told keeps what it may be about, and nothing else.
func TestI04_CollectInDoubt(t *testing.T) {
	t.Parallel()
	needQemu(t)
	boom := errors.New("boom")
	never := func(string) (bool, error) { return false, boom }
	atBases := func(path string) (bool, error) {
		if filepath.Base(filepath.Dir(path)) == baseDir {
			return false, boom
		}
		return false, nil
	}
	link := func(t *testing.T, tree *Tree) {
		if err := os.Symlink("gone."+testInst+".json", tree.Paths("x", testInst).Overlay); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name               string
		doubt              func(t *testing.T, tree *Tree)
		refer              func(string) (bool, error)
		strayGone, allGone bool
	}{
		{"none", nil, nobody, true, true},
		{"overlay without record is no image", func(t *testing.T, tree *Tree) { plant(t, tree, "disk/x."+testInst+".qcow2", "x") }, nobody, true, false},
		{"overlay is a link", link, nobody, true, false},
		{"overlay's backing is no path", func(t *testing.T, tree *Tree) {
			qemu(t, "", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "nbd:localhost:1", tree.Paths("x", testInst).Overlay, "1M")
		}, nobody, true, false},
		{"image of somebody's on one that is missing", func(t *testing.T, tree *Tree) {
			qemu(t, tree.root, "create", "-q", "-u", "-f", "qcow2", "-F", "qcow2", "-b", "/none", "disk/x", "1M")
		}, nobody, true, false},
		{"overlay with a record is no image", func(t *testing.T, tree *Tree) {
			if incarnate(t, tree, "x", testInst); tree.ScanName("x")[0].Record == nil {
				t.Fatal("no record")
			}
		}, nobody, true, true},
		{"the stray itself is no image", func(t *testing.T, tree *Tree) { plant(t, tree, "disk/gone."+testInst+".qcow2", "x") }, nobody, true, true},
		{"nothing can be said about bases", nil, atBases, true, false},
		{"nothing can be said", nil, never, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t)
			one, two := published(t, tree, "qcow2", mib), published(t, tree, "raw", 2*mib)
			overlay(t, tree, "gone", one, false)
			if tt.doubt != nil {
				tt.doubt(t, tree)
			}
			gone, before := []string(nil), state(t, tree.root)
			if tt.strayGone {
				gone = []string{tree.Paths("gone", testInst).Overlay, tree.Paths("gone", testInst).Seed}
			}
			if tt.allGone {
				gone = append(gone, one.Path, two.Path)
			}
			removed, err := tree.Collect(t.Context(), []string{one.SHA256, two.SHA256}, []observe.Incarnation{stray("gone")}, tt.refer)
			if tt.allGone != (err == nil) || err != nil && strings.Count(err.Error(), "boom") > 2 {
				t.Errorf("Collect = %v", err)
			}
			leaves(t, tree, before, gone, removed)
		})
	}
}

// A planted link is neither followed nor taken for a base.
func TestI13_CollectFollowsNoLink(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := []string{"base/" + digest(nil) + ".raw", "base/" + partName(digest(nil)+".raw"), "seed/a." + testInst + ".iso"}
	for _, l := range links {
		if err := os.Symlink(outside, filepath.Join(tree.root, l)); err != nil {
			t.Fatal(err)
		}
	}
	want := state(t, tree.root)
	for _, l := range links[1:] { // the links themselves: a part, and of a stray
		delete(want, filepath.Join(tree.root, l))
	}
	before := state(t, outside)
	if _, err := tree.Collect(t.Context(), []string{digest(nil)}, []observe.Incarnation{stray("a")}, nobody); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, state(t, tree.root)) + cmp.Diff(before, state(t, outside)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An image that is being fetched is wanted.
func TestCollectLeavesWhatIsFetched(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	file := digest(nil) + ".raw"
	plant(t, tree, "base/"+file, "")
	plant(t, tree, "base/"+partName(file), "half")
	f, _ := tree.join(file)
	before := state(t, tree.root)
	removed, err := tree.Collect(t.Context(), []string{digest(nil)}, nil, nobody)
	if err != nil {
		t.Error(err)
	}
	leaves(t, tree, before, nil, removed)
	if err := tree.lead(t.Context(), file, f, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	removed, err = tree.Collect(t.Context(), []string{digest(nil)}, nil, nobody)
	if err != nil {
		t.Error(err)
	}
	delete(before, filepath.Join(tree.root, "base", partName(file)))
	leaves(t, tree, before, []string{filepath.Join(tree.root, "base", file)}, removed)
}

// No overlay is begun while a base is judged, and none judged while an overlay
// is made on one.
func TestCollectAndCreateOverlayTakeTurns(t *testing.T) {
	t.Parallel()
	needQemu(t)
	var tree *Tree
	made, judged := false, false
	tree = newTree(t)
	base := published(t, tree, "qcow2", mib)
	WithStep(func(step string) error {
		if made = true; tree.baseUse.TryLock() {
			tree.baseUse.Unlock()
			t.Errorf("%s: bases may be removed", step)
		}
		return nil
	})(tree)
	if err := tree.CreateOverlay(t.Context(), "a", testInst, base, spec.Size(0)); err != nil || !made {
		t.Fatal(err, made)
	}
	_, err := tree.Collect(t.Context(), []string{digest(nil)}, nil, func(string) (bool, error) {
		if judged = true; tree.baseUse.TryRLock() {
			tree.baseUse.RUnlock()
			t.Error("an overlay may be begun")
		}
		return true, nil
	})
	if err != nil || !judged {
		t.Error(err, judged)
	}
}
