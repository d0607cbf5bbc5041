package source

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openTree(t *testing.T, dir string) tree {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	at, err := root.Open(".")
	must(t, err)
	t.Cleanup(func() { at.Close(); root.Close() })
	return tree{dir: dir, root: root, at: at, quiet: newQuiet(0, time.Time{}, nil)}
}

// TestCase121_SwappedComponentNeverLeadsOut: a directory on the way and a link
// out of the spec directory change places while files are opened, by openat2
// and by what stands in for it.
func TestCase121_SwappedComponentNeverLeadsOut(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(tree, string) (*os.File, error){"openat2": tree.open, "stepwise": tree.openStepwise} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dir := filepath.Join(top, "proxies.d")
			place(t, top, map[string]string{"proxies.d/sub/x": "inside", "outside/x": "outside"})
			must(t, os.Symlink("../outside", filepath.Join(dir, "other")))
			tr := openTree(t, dir)
			stop, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- swap(filepath.Join(dir, "sub"), filepath.Join(dir, "other"), stop) }()
			got := map[string]int{}
			for range 20_000 {
				got[contentOf(open(tr, "sub/x"))]++
				if got["inside"] > 100 && got[""] > 100 {
					break
				}
			}
			close(stop)
			must(t, <-ended)
			if got["inside"] == 0 || got[""] == 0 || len(got) != 2 {
				t.Errorf("read %v, want what is inside and errors, nothing else", got)
			}
		})
	}
}

func swap(a, b string, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
		}
	}
}

func contentOf(f *os.File, err error) string {
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// The kernel itself refuses what leads out; without it, nothing changes.
func TestCase121_BothWaysOfOpeningAgree(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "proxies.d")
	place(t, top, map[string]string{"proxies.d/sub/x": "inside", "x": "outside"})
	must(t,
		os.Symlink("sub/x", filepath.Join(dir, "link")), os.Symlink("../x", filepath.Join(dir, "out")),
		os.Symlink(filepath.Join(dir, "sub/x"), filepath.Join(dir, "absolute")),
		os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("/proc/self/exe", filepath.Join(dir, "magic")),
	)
	tr := openTree(t, dir)
	for rel, want := range map[string]string{
		"sub/x": "inside", "link": "inside", "sub/../sub/x": "inside",
		"out": "", "absolute": "", "loop": "", "magic": "", "../x": "", "missing": "",
	} {
		f, err := tr.open(rel)
		if got := contentOf(f, err); got != want {
			t.Errorf("%s: %q, want %q", rel, got, want)
		}
		if want == "" && errors.Is(err, unix.ENOSYS) {
			t.Errorf("%s: %v", rel, err)
		}
		if got := contentOf(tr.openStepwise(rel)); got != want {
			t.Errorf("%s, stepwise: %q, want %q", rel, got, want)
		}
	}
}
