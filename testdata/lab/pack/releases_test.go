//go:build package

package pack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// releasesVariable names the directory in which packages are made.
const releasesVariable = "EGRESS_PACK_RELEASES"

// Releases that the tests go through. The newest brings another config.toml.
const (
	oldest = "1.2.3"
	middle = "1.2.4"
	newest = "1.2.5"
)

// making is held by whoever makes a package: all are made in one copy of the
// checkout, whose own build and dist stay as they are.
var making sync.Mutex

// releases makes deb and rpm of those versions, where they are missing, and
// gives the directory that holds them under the names they are released with.
func releases(t *testing.T, versions ...string) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	dir := os.Getenv(releasesVariable)
	out := filepath.Join(dir, "released")
	for _, version := range versions {
		made, err := filepath.Glob(filepath.Join(out, "*"+version+"-1*"))
		if err == nil && len(made) == 0 {
			err = release(dir, out, version)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// release makes the packages of a version.
func release(dir, out, version string) error {
	src := filepath.Join(dir, "src")
	if err := checkout(src); err != nil {
		return err
	}
	config := filepath.Join(src, "packaging", "config.toml")
	shipped, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	if version == newest {
		if err := os.WriteFile(config, append(shipped, "\n# New in this version.\n"...), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("make", "--silent", "packages", "VERSION="+version)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1767225600") // there is no git
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages VERSION=%s: %w: %s", version, err, text)
	}
	return move(filepath.Join(src, "dist"), out)
}

// checkout copies the checkout to src, unless it is there.
func checkout(src string) error {
	repo, err := kit.Repo()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(src), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(src, 0o755); os.IsExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	const copyAll = `tar -C "$1" --exclude=./.git --exclude=./build --exclude=./dist -c . | tar -C "$2" -x`
	if text, err := exec.Command("bash", "-euo", "pipefail", "-c", copyAll, "bash", repo, src).CombinedOutput(); err != nil {
		return fmt.Errorf("copy of the checkout: %w: %s", err, text)
	}
	return nil
}

func move(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	for _, f := range files {
		if err == nil {
			err = os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
		}
	}
	return err
}

// debOf and rpmOf are the names of a version's packages within a directory.
func debOf(version string) string { return named("egress-hostagent_%s-1_*.deb", version) }
func rpmOf(version string) string { return named("egress-hostagent-%s-1.*.rpm", version) }

func named(pattern, version string) string { return strings.ReplaceAll(pattern, "%s", version) }
