package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// text makes a file with a text at path.
func text(s string) func(*testing.T, string) {
	return func(t *testing.T, path string) { writeFile(t, path, s) }
}

// bads are the ways in which the file of spec "a" can be unusable. why is what
// is said about it.
var bads = map[string]struct {
	make func(t *testing.T, path string)
	why  string
}{
	"empty":            {text(""), "not a state entry"},
	"half":             {text(envelopeA[:40]), "not a state entry"},
	"zeros":            {text(strings.Repeat("\x00", 512)), "not a state entry"},
	"not JSON":         {text("spec = 'a'\n"), "not a state entry"},
	"trailing garbage": {text(envelopeA + "}"), "not a state entry"},
	"twice":            {text(envelopeA + envelopeA), "not a state entry"},
	"another type":     {text(`[1]`), "not a state entry"},
	"null":             {text(`null`), "of version 0"},
	"without body":     {text(strings.Replace(envelopeA, `,"body":"old"`, "", 1)), "needs a body"},
	"without version":  {text(strings.Replace(envelopeA, `"version":1,`, "", 1)), "of version 0"},
	"newer":            {text(strings.Replace(envelopeA, `:1,`, `:2,`, 1)), "of version 2"},
	"newer, otherwise": {text(`{"version":3,"host":{"id":"host-1"}}`), "of version 3"},
	"another host":     {text(strings.Replace(envelopeA, "host-1", "host-2", 1)), "host-2"},
	"another kind":     {text(strings.Replace(envelopeA, `"spec"`, `"proxy"`, 1)), "proxy/a"},
	"another key":      {text(strings.Replace(envelopeA, `"a"`, `"A"`, 1)), "spec/A"},
	"directory":        {func(t *testing.T, path string) { writeFile(t, filepath.Join(path, "inner"), envelopeA) }, "not a regular file"},
	"FIFO":             {func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) }, "not a regular file"},
	"link": {func(t *testing.T, path string) {
		target := filepath.Join(t.TempDir(), "a.json")
		writeFile(t, target, envelopeA)
		must(t, os.Symlink(target, path))
	}, "not a regular file"},
	"link to nothing": {func(t *testing.T, path string) { must(t, os.Symlink("/nonexistent/a", path)) }, "not a regular file"},
	"too large": {func(t *testing.T, path string) {
		writeFile(t, path, envelopeA)
		must(t, os.Truncate(path, maxFile+1))
	}, "larger than"},
}

func TestCase153_AnUnusableEntryIsMovedAside(t *testing.T) {
	t.Parallel()
	want := Content{Entries: []Entry{oldB}, Lost: map[Kind][]string{Spec: {"a"}}}
	for name, c := range bads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "spec/b.json"), envelopeB)
			path := filepath.Join(dir, "spec/a.json")
			c.make(t, path)
			before, err := os.Lstat(path)
			must(t, err)

			peeked, err := Peek(dir, testHost)
			must(t, err)
			if diff := diff(want, peeked); diff != "" {
				t.Errorf("peek (-want +got):\n%s", diff)
			}
			got := reopened(t, dir)
			if diff := diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Problems) != 1 {
				t.Fatalf("problems %q, want 1", got.Problems)
			}
			aside := filepath.Join(dir, "rejected/spec-a.json.0")
			for _, part := range []string{path, c.why, aside} {
				if !strings.Contains(got.Problems[0], part) {
					t.Errorf("problem %q does not say %q", got.Problems[0], part)
				}
			}
			if after, err := os.Lstat(aside); err != nil || !os.SameFile(before, after) {
				t.Errorf("%s is not what was there: %v", aside, err)
			}
			again := reopened(t, dir)
			if diff := diff(want, again); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got.Problems, again.Problems); diff != "" {
				t.Errorf("after a restart: problems (-first +again):\n%s", diff)
			}
			save(t, dir, Change{Entry: newA})
			if diff := diff(Content{Entries: []Entry{newA, oldB}}, reopened(t, dir)); diff != "" {
				t.Errorf("saved anew (-want +got):\n%s", diff)
			}
		})
	}
}

// Case 153: a file of another user may have been put there by anybody.
func TestCase153_AnotherOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "spec/a.json"), envelopeA)
	s, c, err := open(reader{dir, testHost, os.Geteuid() + 1, maxFile}, func(string) error { return nil })
	must(t, err)
	must(t, s.Close())
	if diff := diff(Content{Lost: map[Kind][]string{Spec: {"a"}}}, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "owned by uid") {
		t.Errorf("problems %q", c.Problems)
	}
}

// Peek by an admin believes the agent's files.
func TestPeekAsksTheDirectorysOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("giving a file away needs root")
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "spec/a.json"), envelopeA)
	writeFile(t, filepath.Join(dir, "spec/b.json"), envelopeB)
	must(t, os.Chown(dir, 65534, -1))
	must(t, os.Chown(filepath.Join(dir, "spec/a.json"), 65534, -1))
	c, err := Peek(dir, testHost)
	must(t, err)
	if diff := diff(Content{Entries: []Entry{oldA}, Lost: map[Kind][]string{Spec: {"b"}}}, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What can not be moved stays, is said to stay, and stops nothing else.
func TestCase153_ItCanNotBeMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "spec/a.json"), "")
	writeFile(t, filepath.Join(dir, "spec/b.json"), envelopeB)
	s, c, err := open(reader{dir, testHost, os.Geteuid(), maxFile}, func(step string) error {
		if step == "renamed" {
			return unix.EROFS
		}
		return nil
	})
	must(t, err)
	must(t, s.Close())
	if diff := diff(lostA, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Problems) != 1 || !strings.Contains(c.Problems[0], unix.EROFS.Error()) {
		t.Errorf("problems %q", c.Problems)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "spec/a.json")); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestNamesThatAreNotOursAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"README", "spec/a.json.swp", "spec/.hidden", "spec/b c.json", "specs/a.json", "rejected/notes"}
	quiet := []string{"staging/.egress-seed-staging", "staging/x.json", "state.json.rejected", "lost+found/1"}
	for _, name := range append(names, quiet...) {
		writeFile(t, filepath.Join(dir, name), "mine")
	}
	for range 2 {
		c := reopened(t, dir)
		if len(c.Entries)+len(c.Lost) != 0 || len(c.Problems) != 1 {
			t.Fatalf("found %+v", c)
		}
		for _, name := range []string{"README", "spec/a.json.swp", "spec/.hidden", "spec/b c.json", "specs"} {
			if !strings.Contains(c.Problems[0], fmt.Sprintf("%q", name)) {
				t.Errorf("%q does not name %s", c.Problems[0], name)
			}
		}
		if strings.Contains(c.Problems[0], "staging") {
			t.Errorf("%q names what belongs there", c.Problems[0])
		}
	}
	for _, name := range append(names, quiet...) {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestI15_RejectedFilesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, rejectedDir), 0o700))
	for i := range maxRejected {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("rejected/spec-a.json.%d", i)), "bad")
	}
	writeFile(t, filepath.Join(dir, "spec/a.json"), "newest")
	reopened(t, dir)
	kept, err := os.ReadDir(filepath.Join(dir, rejectedDir))
	must(t, err)
	if len(kept) != maxRejected {
		t.Errorf("%d are kept, want %d", len(kept), maxRejected)
	}
	if _, err := os.Stat(filepath.Join(dir, "rejected/spec-a.json.0")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the oldest is there: %v", err)
	}
	newest := filepath.Join(dir, fmt.Sprintf("rejected/spec-a.json.%d", maxRejected))
	if b, err := os.ReadFile(newest); string(b) != "newest" {
		t.Errorf("the newest: %q, %v", b, err)
	}
	must(t, os.Truncate(newest, maxRejectedBytes+1))
	reopened(t, dir)
	if kept, err = os.ReadDir(filepath.Join(dir, rejectedDir)); err != nil || len(kept) != 1 {
		t.Errorf("%d are kept, want the newest alone: %v", len(kept), err)
	}
}

// The next start reads whatever was saved.
func TestI15_AnEntryIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := reader{dir, testHost, os.Geteuid(), len(envelopeA) + 1}
	s, _, err := open(r, func(string) error { return nil })
	must(t, err)
	must(t, s.Save(put(Spec, "a", `"old"`))) // with its new line just as long as may be
	if err := s.Save(put(Spec, "a", `"olds"`)); err == nil {
		t.Error("saved a byte too much")
	}
	must(t, s.Close())
	s, got, err := open(r, func(string) error { return nil })
	must(t, err)
	must(t, s.Close())
	if diff := diff(Content{Entries: []Entry{oldA}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
