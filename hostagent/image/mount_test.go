package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// mounted mounts a file system for the test's life, and skips a test that may
// not, unless everything is required.
func mounted(t *testing.T, source, target, fstype, data string) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, 0, data); err != nil {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatalf("mount %s: %v", fstype, err)
		}
		t.Skipf("mount %s: %v", fstype, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// layered gives a directory on an overlay of two file systems, where files have
// other device numbers than directories.
func layered(t *testing.T) string {
	t.Helper()
	lower, upper := t.TempDir(), t.TempDir()
	mounted(t, "tmpfs", upper, "tmpfs", "size=16m")
	for _, d := range []string{"u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(upper, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(upper, "m")
	mounted(t, "overlay", merged, "overlay", "xino=off,lowerdir="+lower+",upperdir="+upper+"/u,workdir="+upper+"/w")
	root := filepath.Join(merged, "tree")
	if err := os.Mkdir(root, 0o710); err != nil {
		t.Fatal(err)
	}
	return root
}

// A tree on an overlay file system serves like any other.
func TestTreeOnOverlayFileSystem(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := New(layered(t), testHost)
	if err := tree.InitMarker(); err != nil {
		t.Fatal(err)
	}
	root, err := os.Stat(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := os.Stat(filepath.Join(tree.root, markerFile))
	if err != nil {
		t.Fatal(err)
	}
	if sys(root).Dev == sys(mark).Dev {
		t.Log("this kernel gives files and directories of an overlay one device: nothing is shown of others")
	}
	if err := create(t.Context(), tree, source(t, "qcow2", mib)); err != nil {
		t.Fatal(err)
	}
	got := tree.Scan()
	if i := got.Incarnations["a"]; got.Marker != observe.MarkerOK || len(i) != 1 || !i[0].Overlay || !i[0].Seed || i[0].Record == nil {
		t.Errorf("Scan = %+v", got)
	}
	if again := New(tree.root, testHost).Scan(); again.Marker != observe.MarkerOK {
		t.Errorf("another Tree: %s", again.Detail)
	}
}

// Invariant 16 with mounts as they are: a directory of the tree that is a mount
// point is refused.
func TestI16_AMountWithinTheTreeIsRefused(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	mounted(t, "tmpfs", filepath.Join(tree.root, diskDir), "tmpfs", "size=1m")
	var m *MarkerError
	if err := tree.CheckMarker(); !errors.As(err, &m) || m.State != observe.MarkerUnreadable {
		t.Errorf("CheckMarker = %v", err)
	}
}

// Different device numbers within one mount are one tree; without knowledge of
// mounts they are not.
func TestI16_DevicesWithinOneMount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		mount func(*os.Root, string) (uint64, bool)
		ok    bool
	}{
		{"one mount", func(*os.Root, string) (uint64, bool) { return 5, true }, true},
		{"unknown", func(*os.Root, string) (uint64, bool) { return 5, false }, false},
		{"another mount", func(_ *os.Root, path string) (uint64, bool) { return uint64(len(path)), true }, false},
	}
	for _, tt := range tests {
		for _, odd := range []string{markerFile, diskDir} {
			tree := newTree(t, withMount(tt.mount), withDevice(func(path string, _ fs.FileInfo) uint64 {
				if path == odd {
					return 2
				}
				return 1
			}))
			if err := tree.CheckMarker(); (err == nil) != tt.ok {
				t.Errorf("%s, %s on another device: %v", tt.name, odd, err)
			}
		}
	}
}
