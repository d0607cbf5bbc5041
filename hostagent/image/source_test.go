package image

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// local puts a source of an image there, written at some time.
func local(t *testing.T, written time.Time, data string) spec.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.raw")
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
	return spec.Image{Key: "debian", Source: path, SHA256: digest([]byte("whole")), Format: "raw"}
}

// TestCase072_ASourceThatIsBeingCopied: a local file with another digest is
// taken for a wrong one only when nobody has written to it for a while.
func TestCase072_ASourceThatIsBeingCopied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		age   time.Duration
		final bool
	}{{0, false}, {young - time.Second, false}, {young + time.Second, true}} {
		tree := newTree(t)
		_, err := tree.EnsureBase(t.Context(), local(t, time.Now().Add(-tt.age), "who"), nil)
		var wrong *DigestError
		if err == nil || errors.As(err, &wrong) != tt.final {
			t.Errorf("written %s ago: %v", tt.age, err)
		}
		empty(t, tree)
	}
}

// TestCase070_NoRoomIsSeenBefore: an image that does not fit beside what is
// kept back is not begun with, and the error says how much there is and how much it takes.
func TestCase070_NoRoomIsSeenBefore(t *testing.T) {
	t.Parallel()
	sent := 0
	s, opt := mirror(t, func(n int64, w http.ResponseWriter) {
		sent = int(n)
		w.Header().Set("Content-Length", "9000000")
		w.WriteHeader(http.StatusOK)
	})
	big := local(t, time.Now().Add(-time.Hour), "")
	if err := os.Truncate(big.Source, 9_000_000); err != nil {
		t.Fatal(err)
	}
	remote := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest(nil), Format: "raw"}
	for _, img := range []spec.Image{big, remote} {
		tree := newTree(t, opt, WithReserve(3<<20), withFree(func(*os.Root) uint64 { return 9_000_000 }))
		_, err := tree.EnsureBase(t.Context(), img, nil)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the image takes 8 MiB, 8 MiB are free, of which 3 MiB are kept back") || !strings.Contains(err.Error(), tree.root) {
			t.Errorf("%s: %v", img.Source, err)
		}
		empty(t, tree)
	}
	if sent != 1 {
		t.Errorf("%d requests", sent)
	}
}

// TestI15_ASourceThatIsNoFile: what is no regular file is neither waited for nor
// read.
func TestI15_ASourceThatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{filepath.Join(dir, "fifo"), filepath.Join(dir, "loop"), dir, "/dev/zero", filepath.Join(dir, "none")} {
		tree := newTree(t)
		_, err := tree.EnsureBase(t.Context(), spec.Image{Key: "debian", Source: source, SHA256: digest(nil), Format: "raw"}, nil)
		if err == nil || !strings.Contains(err.Error(), source) {
			t.Errorf("%s: %v", source, err)
		}
		empty(t, tree)
	}
}

// TestCase072_ASourceThatChangesWhileItIsCopied: what was read is no image, and
// what it has become says nothing of the configuration, however old its time
// stamp says it is.
func TestCase072_ASourceThatChangesWhileItIsCopied(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Hour)
	first := strings.Repeat("a", 3*mib)
	for name, change := range map[string]func(path string) error{
		"written over": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("b", 3*mib)), 0o600)
		},
		"cut short": func(path string) error { return os.Truncate(path, 2*mib) },
		"longer":    func(path string) error { return os.Truncate(path, 4*mib) },
	} {
		img := local(t, long, first)
		for _, wanted := range []string{strings.Repeat("b", 3*mib), "neither"} {
			if err := os.WriteFile(img.Source, []byte(first), 0o600); err != nil {
				t.Fatal(err)
			}
			img.SHA256 = digest([]byte(wanted))
			tree, changed := newTree(t), false
			_, err := tree.EnsureBase(t.Context(), img, func(done, total int64) {
				if changed {
					return
				}
				changed = true
				if err := errors.Join(change(img.Source), os.Chtimes(img.Source, long, long)); err != nil {
					t.Error(err)
				}
			})
			var wrong *DigestError
			if err == nil || errors.As(err, &wrong) || !changed {
				t.Errorf("%s: %v", name, err)
			}
			empty(t, tree)
		}
	}
}

// TestCase072_ASourceThatIsReplacedWhileItIsCopied: the file that was opened is
// the one that is copied.
func TestCase072_ASourceThatIsReplacedWhileItIsCopied(t *testing.T) {
	t.Parallel()
	needQemu(t)
	data := strings.Repeat("a", 3*mib)
	img := local(t, time.Now().Add(-time.Hour), data)
	img.SHA256 = digest([]byte(data))
	_, err := newTree(t).EnsureBase(t.Context(), img, func(int64, int64) {
		next := img.Source + ".new"
		if err := errors.Join(os.WriteFile(next, []byte("another"), 0o600), os.Rename(next, img.Source)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
