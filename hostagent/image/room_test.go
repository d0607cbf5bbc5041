package image

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// smallTree makes a tree on a file system of its own, with the room that it
// really has.
func smallTree(t *testing.T, opt ...Option) *Tree {
	t.Helper()
	root := t.TempDir()
	mounted(t, "tmpfs", root, "tmpfs", "size=4m,nr_inodes=40,mode=710")
	tree := New(root, testHost, opt...)
	if err := tree.InitMarker(); err != nil {
		t.Fatal(err)
	}
	return tree
}

// fillBytes takes all the room there is, and gives it back when called.
func fillBytes(t *testing.T, root string) (free func()) {
	t.Helper()
	path := filepath.Join(root, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() { unlink(t, path) }
}

// fillInodes does the same with the number of files.
func fillInodes(t *testing.T, root string) (free func()) {
	t.Helper()
	var made []string
	for {
		path := filepath.Join(root, "ballast"+strconv.Itoa(len(made)))
		err := os.WriteFile(path, nil, 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
	}
	return func() { unlink(t, made...) }
}

func unlink(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// TestCase070_NothingHalfOnAFullTree: without room for bytes, or for one file
// more, each change says which tree is full and leaves it as it was, however
// often it is tried, and goes through once there is room.
func TestCase070_NothingHalfOnAFullTree(t *testing.T) {
	t.Parallel()
	needQemu(t)
	kinds := map[string]func(*testing.T, string) func(){"bytes": fillBytes, "inodes": fillInodes}
	for kind, fill := range kinds {
		for _, m := range mutations()[:5] {
			if kind == "bytes" && m.name == "PrepareConsole" {
				continue // an empty file takes none
			}
			t.Run(kind+" "+m.name, func(t *testing.T) {
				t.Parallel()
				tree := smallTree(t)
				img := source(t, "qcow2", 3*mib)
				if m.name != "EnsureBase" {
					if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil {
						t.Fatal(err)
					}
				}
				free := fill(t, tree.root)
				before := state(t, tree.root)
				for range 3 {
					err := m.do(t.Context(), tree, "a", testInst, img)
					if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space in "+tree.root) {
						t.Errorf("%v", err)
					}
					if diff := cmp.Diff(before, state(t, tree.root)); diff != "" {
						t.Fatalf("(-before +after):\n%s", diff)
					}
				}
				free()
				if err := m.do(t.Context(), tree, "a", testInst, img); err != nil {
					t.Errorf("with room: %v", err)
				}
			})
		}
	}
}

// TestCase070_AnUnannouncedBodyFillsTheTree: how long it is shows only when
// there is no room left. One attempt is all: the writer's failure is not the
// server's.
func TestCase070_AnUnannouncedBodyFillsTheTree(t *testing.T) {
	t.Parallel()
	needQemu(t)
	data := make([]byte, 6*mib)
	var requests int64
	s, opt := mirror(t, func(n int64, w http.ResponseWriter) {
		requests = n
		http.NewResponseController(w).Flush()
		w.Write(data)
	})
	tree := smallTree(t, opt)
	img := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest(data), Format: "raw"}
	_, err := tree.EnsureBase(t.Context(), img, nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space in "+tree.root) {
		t.Errorf("EnsureBase = %v", err)
	}
	if !strings.Contains(err.Error(), "after 3 MiB") {
		t.Errorf("it does not say how far it came: %v", err)
	}
	s.CloseClientConnections()
	empty(t, tree)
	if free := freeOf(t, tree); free < 3*mib {
		t.Errorf("%d bytes are free afterwards", free)
	}
	if err := unix.Mount("", tree.root, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil {
		t.Errorf("with room: %v", err)
	}
	if requests != 2 {
		t.Errorf("%d requests, want 2", requests)
	}
}

// TestCase070_ADownloadLeavesWhatIsKeptBack: while an image of unknown length
// comes in, others write; it ends before what they need is gone.
func TestCase070_ADownloadLeavesWhatIsKeptBack(t *testing.T) {
	t.Parallel()
	const kept = 8 * mib
	free := int64(0)
	tree := newTree(t, WithReserve(kept), withFree(func(r *os.Root) uint64 {
		left := free
		names, err := readNames(r, baseDir)
		for _, name := range names {
			fi, e := r.Lstat(baseDir + "/" + name)
			if err = errors.Join(err, e); e == nil {
				left -= fi.Size()
			}
		}
		if err != nil {
			t.Error(err)
		}
		return uint64(max(left, 0))
	}), WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		for range 64 {
			if _, err := w.Write(make([]byte, mib)); err != nil {
				return err
			}
		}
		return nil
	})))
	img := remote("")
	img.SHA256 = digest(make([]byte, 64*mib))
	free = 40 * mib
	_, err := tree.EnsureBase(t.Context(), img, nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "after 48 MiB") {
		t.Errorf("EnsureBase = %v", err)
	}
	empty(t, tree)
	needQemu(t)
	free = 72 * mib
	if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil {
		t.Errorf("with room: %v", err)
	}
}

func freeOf(t *testing.T, tree *Tree) uint64 {
	t.Helper()
	r, err := os.OpenRoot(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return freeBytes(r)
}

// A qemu-img that fails for want of room says so in words only; there is less
// room than it takes, so it counts as that.
func TestCase070_TheRoomGoesWhileAnOverlayIsMade(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	img := source(t, "raw", mib)
	if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil {
		t.Fatal(err)
	}
	looks := 0
	withFree(func(*os.Root) uint64 {
		if looks++; looks == 1 {
			return roomy
		}
		return 5 << 10
	})(tree)
	script(t, `case $1 in create) exit 1 ;; esac; exec qemu-img "$@"`)(tree)
	err := tree.CreateOverlay(context.Background(), "a", testInst, tree.base(img.SHA256, "raw"), 0)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "takes 1 MiB, 5 KiB are free") {
		t.Errorf("CreateOverlay = %v", err)
	}
	if left := tree.ScanName("a"); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
