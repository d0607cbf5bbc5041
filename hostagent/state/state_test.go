package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const host = "host-1"

func open(t *testing.T, dir string) (*Store, string) {
	t.Helper()
	s, problem, err := Open(dir, host)
	if err != nil {
		t.Fatal(err)
	}
	return s, problem
}

func TestTreeKnownSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, problem := open(t, dir)
	if problem != "" || s.TreeKnown() {
		t.Fatalf("fresh state: %q, %v", problem, s.TreeKnown())
	}
	if known, err := PeekTreeKnown(dir, host); known || err != nil {
		t.Errorf("peek at a fresh state: %v, %v", known, err)
	}
	if err := s.SetTreeKnown(); err != nil {
		t.Fatal(err)
	}
	if again, _ := open(t, dir); !again.TreeKnown() {
		t.Error("forgotten")
	}
	if known, err := PeekTreeKnown(dir, host); !known || err != nil {
		t.Errorf("peek: %v, %v", known, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, fileName): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, want)
		}
	}
}

func TestCase153_AnUnusableDocumentIsMovedAside(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"empty":        {"", "not a state document"},
		"half":         {`{"version":1,"ho`, "not a state document"},
		"newer":        {`{"version":99,"host":"host-1","tree_known":true}`, "version 99"},
		"another host": {`{"version":1,"host":"host-2","tree_known":true}`, "host-2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := PeekTreeKnown(dir, host); err == nil {
				t.Error("peek believed it")
			}
			s, problem := open(t, dir)
			if !s.TreeKnown() || !strings.Contains(problem, c.why) || !strings.Contains(problem, path) {
				t.Errorf("known %v, problem %q", s.TreeKnown(), problem)
			}
			if b, err := os.ReadFile(path + ".rejected"); err != nil || string(b) != c.text {
				t.Errorf("aside: %q, %v", b, err)
			}
			if again, problem := open(t, dir); problem != "" || !again.TreeKnown() {
				t.Errorf("after a restart: %q, known %v", problem, again.TreeKnown())
			}
		})
	}
}
