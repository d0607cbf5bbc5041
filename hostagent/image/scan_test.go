package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func TestScan(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	incarnate(t, tree, "a", testInst)
	incarnate(t, tree, "a", otherInst)
	older := testRecord("a", otherInst)
	older.Created = older.Created.Add(-time.Hour)
	if err := tree.WriteRecord(older); err != nil {
		t.Fatal(err)
	}
	newer := testRecord("a", testInst)
	incarnate(t, tree, "b", testInst)
	for _, f := range []string{
		"seed/c." + testInst + ".iso", "disk/" + partName("d."+testInst+".qcow2"), "seed/e." + testInst + ".iso",
		"disk/a." + testInst + ".iso", "disk/notes", "seed/f." + testInst + ".qcow2",
		"base/" + digest(nil) + ".raw", "base/" + partName(digest([]byte("x"))+".raw"), "base/x.raw",
	} {
		plant(t, tree, f, "x")
	}
	plant(t, tree, "seed/b."+testInst+".iso", "another size than in the record")
	plant(t, tree, "seed/e."+testInst+".iso", "")
	b := testRecord("b", testInst)
	want := observe.Tree{
		Root: tree.root, Marker: observe.MarkerOK, Host: testHost, Free: roomy,
		Bases: map[string]observe.Base{digest(nil): tree.base(digest(nil), "raw")},
		Incarnations: map[string][]observe.Incarnation{
			"a": {
				{Name: "a", Instance: otherInst, Overlay: true, Seed: true, Record: &older},
				{Name: "a", Instance: testInst, Overlay: true, Seed: true, Record: &newer},
			},
			"b": {{Name: "b", Instance: testInst, Overlay: true, Record: &b}},
			"c": {{Name: "c", Instance: testInst, Seed: true}},
			"d": {{Name: "d", Instance: testInst}},
			"e": {{Name: "e", Instance: testInst}},
		},
	}
	if diff := cmp.Diff(want, tree.Scan()); diff != "" {
		t.Errorf("Scan (-want +got):\n%s", diff)
	}
	for name := range want.Incarnations {
		if diff := cmp.Diff(want.Incarnations[name], New(tree.root, testHost).ScanName(name)); diff != "" {
			t.Errorf("ScanName(%s) (-want +got):\n%s", name, diff)
		}
	}
}

// Case 64: what was removed or copied in by hand is seen by the next scan.
func TestI14_Case064ChangedByHand(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	incarnate(t, tree, "a", testInst)
	incarnate(t, tree, "b", testInst)
	tree.Scan()
	if err := os.Remove(tree.Paths("a", testInst).Overlay); err != nil {
		t.Fatal(err)
	}
	plant(t, tree, "base/"+digest(nil)+".qcow2", "")
	got := tree.Scan()
	if a := got.Incarnations["a"]; len(a) != 1 || a[0].Overlay || a[0].Record == nil {
		t.Errorf("a = %+v", a)
	}
	if len(got.Bases) != 1 || !got.Incarnations["b"][0].Overlay {
		t.Errorf("Scan = %+v", got)
	}
}

// The cache is used while no directory changed, not before a directory has
// settled, and not for ever: what changed within a file is found in the end.
func TestI14_ScanCache(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tree := newTree(t, WithClock(func() time.Time { return now }))
	incarnate(t, tree, "a", testInst)
	seed := tree.Paths("a", testInst).Seed
	seen := func() bool { return tree.Scan().Incarnations["a"][0].Seed }
	resize := func(n int64) {
		t.Helper()
		if err := os.Truncate(seed, n); err != nil {
			t.Fatal(err)
		}
	}
	whole := int64(len(testSeed().Bytes))
	if !seen() {
		t.Fatal("the seed is not seen")
	}
	resize(1) // the directory changed a moment ago: its time stamp is not trusted
	if seen() {
		t.Error("a cache of an unsettled directory was used")
	}
	now = now.Add(time.Minute)
	resize(whole)
	if !seen() {
		t.Error("the first scan of a settled directory was not made")
	}
	resize(1)
	if !seen() {
		t.Error("the cache was not used")
	}
	now = now.Add(deepEvery + time.Second)
	if seen() {
		t.Error("the cache was used too long")
	}
	resize(whole)
	if got := tree.ScanName("a"); !got[0].Seed {
		t.Error("ScanName used the cache")
	}
	if !seen() {
		t.Error("ScanName did not put the cache right")
	}
}

// Once the directories have settled, a file that comes and a record that is
// replaced are seen nevertheless, by Scan and by ScanName.
func TestI14_ScanSeesChanges(t *testing.T) {
	t.Parallel()
	tree := newTree(t, WithClock(func() time.Time { return time.Now().Add(time.Minute) }))
	incarnate(t, tree, "a", testInst)
	tree.Scan()
	plant(t, tree, "disk/b."+testInst+".qcow2", "x")
	if got := tree.Scan().Incarnations["b"]; len(got) != 1 {
		t.Errorf("a new overlay: %+v", got)
	}
	hash := func(i []observe.Incarnation) string { return i[0].Record.SpecHash }
	for n, look := range []func() []observe.Incarnation{
		func() []observe.Incarnation { return tree.Scan().Incarnations["a"] },
		func() []observe.Incarnation { return tree.ScanName("a") },
		func() []observe.Incarnation { return tree.Scan().Incarnations["a"] },
	} {
		rec := testRecord("a", testInst)
		rec.SpecHash = fmt.Sprintf("1:aa:%d", n)
		if err := tree.WriteRecord(rec); err != nil {
			t.Fatal(err)
		}
		if got := hash(look()); got != rec.SpecHash {
			t.Errorf("look %d: %s, want %s", n, got, rec.SpecHash)
		}
	}
}

// A directory that can not be listed is not an empty one.
func TestI16_UnreadableDirectoryIsNotEmpty(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	incarnate(t, tree, "a", testInst)
	want := tree.Scan()
	r, err := os.OpenRoot(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	r.Close() // every look-up beneath it fails now
	if _, err := tree.readContents(r); !errors.Is(err, os.ErrClosed) {
		t.Errorf("readContents = %v", err)
	}
	if err := os.Remove(filepath.Join(tree.root, markerFile)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Incarnations["a"], tree.ScanName("a")); diff != "" {
		t.Errorf("ScanName without a marker (-last known +got):\n%s", diff)
	}
	if got := New(tree.root, testHost).ScanName("a"); got != nil {
		t.Errorf("ScanName without marker and history = %+v", got)
	}
}

// Results given away do not change under the caller.
func TestScanResultsStay(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for _, name := range []string{"a", "b", "c"} {
		incarnate(t, tree, name, testInst)
	}
	first := tree.Scan()
	if err := tree.RemoveIncarnation("b", testInst); err != nil {
		t.Fatal(err)
	}
	if got := tree.ScanName("b"); len(got) != 0 {
		t.Errorf("ScanName = %+v", got)
	}
	names := func(tree observe.Tree) string {
		return strings.Join(slices.Sorted(maps.Keys(tree.Incarnations)), " ")
	}
	if got := names(first) + "; " + names(tree.Scan()); got != "a b c; a c" {
		t.Errorf("before and after: %s", got)
	}
}

// fleet makes a tree of n incarnations.
func fleet(b *testing.B, n int, opt ...Option) *Tree {
	tree := newTree(b, opt...)
	for i := range n {
		name := fmt.Sprintf("proxy-%04d", i)
		rec := testRecord(name, testInst)
		rec.SeedSize = 4
		data, err := json.Marshal(rec)
		if err != nil {
			b.Fatal(err)
		}
		plant(b, tree, "disk/"+name+"."+testInst+".qcow2", "overlay")
		plant(b, tree, "disk/"+name+"."+testInst+".json", string(data))
		plant(b, tree, "seed/"+name+"."+testInst+".iso", "seed")
	}
	return tree
}

func BenchmarkScan1000(b *testing.B) {
	now := time.Now()
	tree := fleet(b, 1000, WithClock(func() time.Time { return now.Add(time.Minute) }))
	check := func(got observe.Tree) {
		if len(got.Incarnations) != 1000 {
			b.Fatalf("%d incarnations, %s", len(got.Incarnations), got.Detail)
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			tree.cache = nil
			check(tree.Scan())
		}
	})
	b.Run("one file came", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			plant(b, tree, fmt.Sprintf("disk/x%d", i), "")
			check(tree.Scan())
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		check(tree.Scan())
		for b.Loop() {
			check(tree.Scan())
		}
	})
	b.Run("one name", func(b *testing.B) {
		for b.Loop() {
			if got := tree.ScanName("proxy-0500"); len(got) != 1 || !got[0].Seed {
				b.Fatalf("%+v", got)
			}
		}
	})
}

// The room that is left is measured anew by each scan, though nothing else is
// read again.
func TestScanTellsTheRoomThatIsLeft(t *testing.T) {
	t.Parallel()
	left := uint64(5)
	tree := newTree(t, withFree(func(*os.Root) uint64 { left--; return left }))
	for want := uint64(4); want > 0; want-- {
		if got := tree.Scan().Free; got != want {
			t.Errorf("free %d, want %d", got, want)
		}
	}
	if got := New(tree.root, testHost).Scan().Free; got < mib || got > 1<<60 {
		t.Errorf("free space of the real file system: %d", got)
	}
}
