package seed

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	stagedSecret = "#cloud-config\npassword: hunter2\n"
	crashCode    = 7
)

// keepTMPDIR restores TMPDIR after a test that calls UseStaging.
func keepTMPDIR(t *testing.T) { t.Setenv("TMPDIR", os.TempDir()) }

// find lists every path below dir whose content holds the text.
func find(t *testing.T, dir, text string) []string {
	t.Helper()
	var hits []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			hits = append(hits, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func TestI12_Seed09_CrashLeavesNoSecretsAfterRestart(t *testing.T) {
	keepTMPDIR(t)
	dir := filepath.Join(t.TempDir(), "run", "staging")
	err := child(t, "crash", "STAGING="+dir).Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != crashCode {
		t.Fatalf("child: %v, want exit code %d", err, crashCode)
	}
	if len(find(t, dir, "hunter2")) == 0 {
		t.Fatal("the crash left nothing behind: this test shows nothing")
	}
	if err := UseStaging(dir); err != nil {
		t.Fatal(err)
	}
	if hits := find(t, dir, "hunter2"); len(hits) > 0 {
		t.Errorf("still there: %v", hits)
	}
	if os.TempDir() != dir {
		t.Errorf("staging goes to %s, want %s", os.TempDir(), dir)
	}
	mustBuild(t, sample())
	if err := UseStaging(dir); err != nil {
		t.Errorf("second call: %v", err)
	}
}

func TestSeed09_UseStagingMakesAPrivateDirectory(t *testing.T) {
	keepTMPDIR(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := UseStaging(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
}

// Nothing of a refused directory may be touched, nor TMPDIR be set to it.
func TestUseStagingRefuses(t *testing.T) {
	keepTMPDIR(t)
	before := os.TempDir()
	for name, prepare := range map[string]func(t *testing.T, dir string) string{
		"group may enter": func(t *testing.T, dir string) string {
			return dir + chmod(t, dir, 0o710)
		},
		"owner may not write": func(t *testing.T, dir string) string {
			return dir + chmod(t, dir, 0o500)
		},
		"somebody's home": func(t *testing.T, dir string) string {
			return dir + chmod(t, dir, 0o700)
		},
		"symbolic link": func(t *testing.T, dir string) string {
			chmod(t, dir, 0o700)
			link := dir + ".link"
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			return link
		},
		"file": func(_ *testing.T, dir string) string { return filepath.Join(dir, "letter") },
		"another user's": func(t *testing.T, dir string) string {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			if err := os.Chown(dir, 4242, 4242); err != nil {
				t.Fatal(err)
			}
			return dir + chmod(t, dir, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if name != "somebody's home" { // all others could be swept, but for one reason
				if err := os.WriteFile(filepath.Join(dir, stagingMarker), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			letter := filepath.Join(dir, "letter")
			if err := os.WriteFile(letter, []byte("dear"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := UseStaging(prepare(t, dir)); err == nil {
				t.Error("accepted")
			}
			if got, err := os.ReadFile(letter); err != nil || string(got) != "dear" {
				t.Errorf("the letter reads %q, %v", got, err)
			}
			if os.TempDir() != before {
				t.Errorf("TMPDIR is %s", os.TempDir())
			}
		})
	}
}

// chmod sets a mode and returns "", to be used in an expression.
func chmod(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return ""
}

// A link in a leftover leads nowhere: only the link goes.
func TestSweepFollowsNoLinks(t *testing.T) {
	keepTMPDIR(t)
	dir, outside := filepath.Join(t.TempDir(), "d"), t.TempDir()
	if err := UseStaging(dir); err != nil {
		t.Fatal(err)
	}
	letter := filepath.Join(outside, "letter")
	if err := errors.Join(os.WriteFile(letter, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link")),
		os.MkdirAll(filepath.Join(dir, "123", "sub"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := UseStaging(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(letter); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{stagingMarker}, names); diff != "" {
		t.Errorf("entries after the sweep (-want +got):\n%s", diff)
	}
}
