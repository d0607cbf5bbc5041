package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestI12_OnlyTheAgentReadsIt(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "lib", "state")
	save(t, dir, put(Spec, "a", "1"), put(Host, "host", "1"))
	writeFile(t, filepath.Join(dir, "spec/b.json"), "")
	must(t, os.Chmod(filepath.Join(dir, "spec/a.json"), 0o644))
	save(t, dir, put(Spec, "a", "2"))
	want := map[string]fs.FileMode{
		".": fs.ModeDir | 0o700, "host": fs.ModeDir | 0o700, "proxy": fs.ModeDir | 0o700, "spec": fs.ModeDir | 0o700,
		"tombstone": fs.ModeDir | 0o700, "manifest": fs.ModeDir | 0o700, "rejected": fs.ModeDir | 0o700, ".lock": 0o600,
		"host/host.json": 0o600, "spec/a.json": 0o600, "spec/b.json": 0o600, "rejected/spec-b.json.0": 0o600,
	}
	got := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		got[rel] = fi.Mode()
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneAgentAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := mustOpen(t, dir)
	if _, _, err := Open(dir, testHost); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("opened twice: %v", err)
	}
	must(t, s.Save(put(Spec, "a", "1"))) // the refused one took no lock away
	must(t, s.Close())
	must(t, s.Close())
	if err := s.Save(put(Spec, "a", "2")); !errors.Is(err, errClosed) {
		t.Errorf("saved without the lock: %v", err)
	}
	s.Reject(entry(Spec, "a", "1"), errUnusable)
	if diff := diff(Content{Entries: []Entry{entry(Spec, "a", "1")}}, reopened(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestADirectoryThatCanNotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  error
	}{
		"a file":               {func(t *testing.T, dir string) { must(t, os.Remove(dir)); writeFile(t, dir, "") }, unix.ENOTDIR},
		"a kind is a file":     {func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "spec"), "") }, unix.ENOTDIR},
		"a kind is a link":     {func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "spec"))) }, unix.ENOTDIR},
		"rejected is a link":   {func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "rejected"))) }, unix.ENOTDIR},
		"the lock is a link":   {func(t *testing.T, dir string) { must(t, os.Symlink("x", filepath.Join(dir, lockName))) }, unix.ELOOP},
		"the lock is not ours": {func(t *testing.T, dir string) { must(t, os.Mkdir(filepath.Join(dir, lockName), 0o700)) }, unix.EISDIR},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			must(t, os.Mkdir(dir, 0o700))
			c.spoil(t, dir)
			if _, _, err := Open(dir, testHost); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			// The failure holds no lock.
			must(t, os.RemoveAll(dir))
			reopened(t, dir)
		})
	}
	if _, _, err := Open(t.TempDir(), ""); err == nil {
		t.Error("opened for no host")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "spec")))
	writeFile(t, filepath.Join(elsewhere, "a.json"), envelopeA)
	if c, err := Peek(dir, testHost); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("Peek followed a link: %+v, %v", c, err)
	}
}

func TestCase153_AReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	for _, sub := range []string{".", "spec", "rejected"} {
		dir := filepath.Join(t.TempDir(), "state")
		must(t, os.Mkdir(dir, 0o700))
		unprivileged(t, dir, func() {
			s, _, err := Open(dir, testHost)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
			os.Chmod(filepath.Join(dir, sub), 0o500)
			_, _, err = Open(dir, testHost)
			os.Chmod(filepath.Join(dir, sub), 0o700)
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", sub, err)
			}
		})
	}
}

func TestTheDirectoryMayBeALink(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	save(t, link, Change{Entry: oldA})
	for _, d := range []string{dir, link} {
		if diff := diff(Content{Entries: []Entry{oldA}}, reopened(t, d)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestPeekChangesNothing(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "state")
	if c, err := Peek(missing, testHost); err != nil || len(c.Entries) != 0 {
		t.Errorf("a missing directory: %+v, %v", c, err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	dir := t.TempDir()
	s, _ := mustOpen(t, dir) // the agent runs
	must(t, s.Save(put(Spec, "a", "1")))
	writeFile(t, filepath.Join(dir, "spec/b.json"), "")
	writeFile(t, filepath.Join(dir, "spec/.c.json123"), "being written")
	writeFile(t, filepath.Join(dir, "state.json"), oldDoc)
	before := files(t, dir)
	c, err := Peek(dir, testHost)
	must(t, err)
	want := Content{Entries: append(host.Entries, entry(Spec, "a", "1")), Lost: map[Kind][]string{Spec: {"b"}}}
	if diff := diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func TestTheOldDocumentIsMigrated(t *testing.T) {
	t.Parallel()
	newer := `{"version":1,"host":"host-1","kind":"host","key":"host","body":{"tree_known":true,"x":1}}`
	for name, c := range map[string]struct {
		text, there string // the old document; the new entry that is there already
		want        Content
		problems    int
		files       []string
	}{
		"known":     {oldDoc, "", host, 0, []string{"host/host.json"}},
		"not known": {strings.Replace(oldDoc, "true", "false", 1), "", Content{Entries: []Entry{entry(Host, "host", `{"tree_known":false}`)}}, 0, []string{"host/host.json"}},
		"the new one counts": {`{`, newer, Content{Entries: []Entry{entry(Host, "host", `{"tree_known":true,"x":1}`)}}, 0,
			[]string{"host/host.json", "rejected/host-host.json.0"}},
		"empty":        {"", "", noHost, 1, []string{"host/host.json", "rejected/host-host.json.0"}},
		"half":         {oldDoc[:20], "", noHost, 1, []string{"host/host.json", "rejected/host-host.json.0"}},
		"newer":        {strings.Replace(oldDoc, "1", "9", 1), "", noHost, 1, []string{"host/host.json", "rejected/host-host.json.0"}},
		"another host": {strings.Replace(oldDoc, "host-1", "host-2", 1), "", noHost, 1, []string{"host/host.json", "rejected/host-host.json.0"}},
		"says nothing": {`{"version":1,"host":"host-1"}`, "", noHost, 1, []string{"host/host.json", "rejected/host-host.json.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, oldName), c.text)
			if c.there != "" {
				writeFile(t, filepath.Join(dir, "host/host.json"), c.there)
			}
			for range 2 {
				got := reopened(t, dir)
				if diff := diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(got.Problems) != c.problems {
					t.Errorf("problems %q, want %d", got.Problems, c.problems)
				}
				if diff := cmp.Diff(append([]string{lockName}, c.files...), files(t, dir)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			}
		})
	}
}
