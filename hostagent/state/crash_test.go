package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a killed child process is told.
const (
	envDir  = "TEST_STATE_DIR"
	envWork = "TEST_STATE_WORK" // a key of works
	envStep = "TEST_STATE_STEP" // the step after which it is killed
)

func TestMain(m *testing.M) {
	if os.Getenv(envDir) == "" {
		os.Exit(m.Run())
	}
	if err := victim(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// victim does the work and kills itself after the given step.
func victim() error {
	last, err := strconv.Atoi(os.Getenv(envStep))
	if err != nil {
		return err
	}
	done := 0
	return works[os.Getenv(envWork)].run(os.Getenv(envDir), func(string) error {
		if done++; done == last {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
}

// work is something that can be interrupted.
type work struct {
	before  map[string]string // files there at the beginning
	changes []Change          // saved; without any, the work is Open
	allowed []Content         // what may be found after a crash; the last is that of the whole work
	steps   []string
	found   bool // it finds problems from the beginning
}

func (w work) run(dir string, step func(string) error) error {
	quiet := len(w.changes) > 0
	s, _, err := open(reader{dir, testHost, os.Geteuid(), maxFile}, func(name string) error {
		if quiet {
			return nil
		}
		return step(name)
	})
	if err != nil {
		return err
	}
	quiet = false
	return errors.Join(s.Save(w.changes...), s.Close())
}

const (
	envelopeA = `{"version":1,"host":"host-1","kind":"spec","key":"a","body":"old"}`
	envelopeB = `{"version":1,"host":"host-1","kind":"spec","key":"b","body":"old"}`
	oldDoc    = `{"version":1,"host":"host-1","tree_known":true}`
)

var (
	steps   = []string{"created", "written", "renamed", "published"}
	removal = []string{"removed", "published"}
	oldA    = entry(Spec, "a", `"old"`)
	newA    = entry(Spec, "a", `"new"`)
	oldB    = entry(Spec, "b", `"old"`)
	lostA   = Content{Entries: []Entry{oldB}, Lost: map[Kind][]string{Spec: {"a"}}}
	host    = Content{Entries: []Entry{entry(Host, "host", `{"tree_known":true}`)}}
	noHost  = Content{Lost: map[Kind][]string{Host: {"host"}}}
)

var works = map[string]work{
	"create": {
		changes: []Change{{Entry: newA}},
		allowed: []Content{{}, {Entries: []Entry{newA}}},
		steps:   steps,
	},
	"replace": {
		before:  map[string]string{"spec/a.json": envelopeA},
		changes: []Change{{Entry: newA}},
		allowed: []Content{{Entries: []Entry{oldA}}, {Entries: []Entry{newA}}},
		steps:   steps,
	},
	"remove": {
		before:  map[string]string{"spec/a.json": envelopeA},
		changes: []Change{gone(Spec, "a")},
		allowed: []Content{{Entries: []Entry{oldA}}, {}},
		steps:   removal,
	},
	"several, in order": {
		before:  map[string]string{"spec/a.json": envelopeA, "spec/b.json": envelopeB},
		changes: []Change{{Entry: newA}, gone(Spec, "b"), put(Proxy, "a", "1")},
		allowed: []Content{
			{Entries: []Entry{oldA, oldB}}, {Entries: []Entry{newA, oldB}}, {Entries: []Entry{newA}},
			{Entries: []Entry{entry(Proxy, "a", "1"), newA}},
		},
		steps: slices.Concat(steps, removal, steps),
	},
	"move aside": {
		before:  map[string]string{"spec/a.json": "", "spec/b.json": envelopeB},
		allowed: []Content{lostA},
		steps:   slices.Concat(steps, []string{"exchanged"}),
		found:   true,
	},
	"migrate": {
		before:  map[string]string{"state.json": oldDoc},
		allowed: []Content{host},
		steps:   slices.Concat(steps, removal),
	},
	"migrate what is bad": {
		before:  map[string]string{"state.json": "{"},
		allowed: []Content{noHost},
		steps:   slices.Concat(steps, []string{"moved"}),
		found:   true,
	},
}

// prepare makes a directory as it is before the work.
func (w work) prepare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range w.before {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

// check looks at what an interrupted work left.
func (w work) check(t *testing.T, dir, when string) {
	t.Helper()
	peeked, err := Peek(dir, testHost)
	if err != nil {
		t.Fatal(err)
	}
	got := reopened(t, dir)
	if !slices.ContainsFunc(w.allowed, func(c Content) bool { return diff(c, got) == "" }) {
		t.Errorf("%s: found %+v", when, got)
	}
	if diff := diff(got, peeked); diff != "" {
		t.Errorf("%s: Peek found something else (-open +peek):\n%s", when, diff)
	}
	if !w.found && len(got.Problems) != 0 {
		t.Errorf("%s: problems %q", when, got.Problems)
	}
	for _, name := range files(t, dir) {
		if base := filepath.Base(name); strings.HasPrefix(base, ".") && base != lockName {
			t.Errorf("%s: %s is left", when, name)
		}
	}
	must(t, w.run(dir, func(string) error { return nil }))
	if diff := diff(w.allowed[len(w.allowed)-1], reopened(t, dir)); diff != "" {
		t.Errorf("%s: done again (-want +got):\n%s", when, diff)
	}
}

// killed runs a victim; it reports false when the work had fewer steps.
func killed(t *testing.T, dir, name string, step int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+dir, envWork+"="+name, envStep+"="+strconv.Itoa(step))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("step %d: %v: %s", step, err, out)
	}
	return true
}

// Killed after any step, an entry is the old or the new one; what was lost
// stays known, so a tombstone never just vanishes.
func TestI05_KilledAfterAnyStep(t *testing.T) {
	t.Parallel()
	for name, w := range works {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := 1
			for ; ; step++ {
				dir := w.prepare(t)
				more := killed(t, dir, name, step)
				w.check(t, dir, fmt.Sprint("step ", step))
				if !more {
					break
				}
			}
			if step != len(w.steps)+1 {
				t.Errorf("the work has %d steps, want %v", step-1, w.steps)
			}
		})
	}
}

// A step that fails, say of a full disk, is an error, and what was there
// stands.
func TestI03_AStepThatFails(t *testing.T) {
	t.Parallel()
	for name, w := range works {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			for last := 1; last <= len(w.steps); last++ {
				dir := w.prepare(t)
				seen = nil
				err := w.run(dir, func(step string) error {
					if seen = append(seen, step); len(seen) == last {
						return unix.ENOSPC
					}
					return nil
				})
				if len(w.changes) > 0 && !errors.Is(err, unix.ENOSPC) {
					t.Errorf("%s: %v", seen, err)
				}
				if len(w.changes) == 0 && err != nil { // the directory can be used even so
					t.Errorf("%s: %v", seen, err)
				}
				for _, f := range files(t, dir) {
					if tempPattern.MatchString(filepath.Base(f)) {
						t.Errorf("%s: left %s", seen, f)
					}
				}
				w.check(t, dir, fmt.Sprint(seen))
			}
			if !slices.Equal(seen, w.steps) {
				t.Errorf("steps %q, want %q", seen, w.steps)
			}
		})
	}
}
