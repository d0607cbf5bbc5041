//go:build package

package pack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain holds the tests to leaving nothing behind on the machine.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(releasesVariable) == "" { // else who set it wants to keep what is made
		dir, err := os.MkdirTemp("", "pack-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = os.Setenv(releasesVariable, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	before := traces()
	code := m.Run()
	if diff := cmp.Diff(before, traces()); diff != "" {
		fmt.Printf("the tests left something on the machine (-before +after):\n%s\n", diff)
		code = 1
	}
	return code
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
