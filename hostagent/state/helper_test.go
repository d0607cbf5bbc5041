package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

const testHost = "host-1"

func entry(kind Kind, key, body string) Entry { return Entry{kind, key, json.RawMessage(body)} }

func put(kind Kind, key, body string) Change { return Change{Entry: entry(kind, key, body)} }

func gone(kind Kind, key string) Change { return Change{Entry: entry(kind, key, ""), Gone: true} }

// mustOpen opens a directory until the test ends.
func mustOpen(t testing.TB, dir string) (*Store, Content) {
	t.Helper()
	s, c, err := Open(dir, testHost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, c
}

// reopened is what is found by the next start.
func reopened(t testing.TB, dir string) Content {
	t.Helper()
	s, c := mustOpen(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

func save(t testing.TB, dir string, changes ...Change) {
	t.Helper()
	s, _ := mustOpen(t, dir)
	if err := s.Save(changes...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// diff compares contents but for the texts for people.
func diff(want, got Content) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Content{}, "Problems"))
}

// files lists everything beneath dir but directories, as relative paths.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unprivileged runs f without the powers of root: on a thread of its own,
// which ends with it.
func unprivileged(t *testing.T, dir string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, above := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chmod(above, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}
