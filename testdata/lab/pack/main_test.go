//go:build package

package pack

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain holds the tests to leaving nothing behind on the machine.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := workDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	before := traces()
	code := m.Run()
	if diff := cmp.Diff(before, traces()); diff != "" {
		fmt.Printf("the tests left something on the machine (-before +after):\n%s\n", diff)
		code = 1
	}
	return code
}

// workDir makes the directory that all temporary ones lie in, packages included
// unless the variable names another place for them. It is removed when a signal
// ends the tests, too; the containers end by themselves with the process.
func workDir() (string, error) {
	dir, err := os.MkdirTemp("", "pack-")
	if err != nil {
		return "", err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		_ = os.RemoveAll(dir)
		os.Exit(1)
	}()
	if err := os.Setenv("TMPDIR", dir); err != nil || os.Getenv(releasesVariable) != "" {
		return dir, err
	}
	return dir, os.Setenv(releasesVariable, filepath.Join(dir, "releases"))
}

// traces lists what of the package's name there is where packages put files.
// Temporary and home directories are left out: others work there meanwhile.
func traces() (found []string) {
	for _, top := range []string{"/etc", "/usr", "/var/lib", "/var/log", "/run", "/lib", "/opt", "/srv"} {
		_ = filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.Contains(filepath.Base(path), "egress-hostagent") {
				found = append(found, path)
			}
			return nil // what has vanished meanwhile, or may not be read
		})
	}
	return found
}
