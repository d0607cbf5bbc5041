package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// uriVariable names libvirt to the conformance suite.
const uriVariable = "EGRESS_TEST_LIBVIRT_URI=qemu:///system"

// release is Debian 13, where other-libvirt.sh has modular daemons.
const release = "trixie"

// otherVersions is a step that builds one test binary and one agent and runs
// them on this machine's libvirtd and on another release's modular daemons.
// Neither is told more than qemu:///system.
func otherVersions() (t tally) {
	dir, err := os.MkdirTemp("", "egress-versions-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // the agent's user runs what is in it
	}
	if err == nil {
		err = runVersions(dir, &t)
	}
	if err != nil {
		fmt.Printf("   %v\n", err)
		t.failed++
	}
	return t
}

// runVersions builds into dir, while the tree of the other release is made.
func runVersions(dir string, t *tally) error {
	other, err := kit.Script("other-libvirt.sh")
	if err != nil {
		return err
	}
	traffic, err := kit.Script("tc.sh")
	if err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() {
		cmd := exec.Command(other, "tree", release)
		cmd.Stderr = os.Stderr
		made <- cmd.Run()
	}()
	conform, smoke := filepath.Join(dir, "virt.test"), filepath.Join(dir, "lanes.test")
	_, err = kit.Build(dir, daemon, "-tags=libvirt_dlopen", "-trimpath")
	if err == nil {
		err = buildTests(conform, "libvirtd,libvirt_dlopen", virt)
	}
	if err == nil {
		err = buildTests(smoke, "versions", lab+"lanes")
	}
	if err == nil {
		err = here(dir, t, conform)
	}
	if e := <-made; e != nil {
		return errors.Join(err, fmt.Errorf("%s tree %s: %w", other, release, e))
	}
	if err != nil {
		return err
	}
	tree := func(args ...string) []string {
		return append([]string{other, "run", release, "--bind", dir}, args...)
	}
	t.add(runTests("Debian 13, test driver", virt, tree(conform, "-test.run=OnTheTestDriver$")))
	t.add(runTests("Debian 13, virtqemud", virt, tree(traffic, "env", uriVariable, conform, "-test.run=OnADaemon$")))
	t.add(runTests("Debian 13, the agent", lab+"lanes", tree(smoke)))
	return nil
}

// here runs the suite on a private libvirtd, of this machine's release.
func here(dir string, t *tally, conform string) (err error) {
	home := filepath.Join(dir, "lab")
	place, err := kit.Private(home)
	if err != nil {
		return err
	}
	defer func() {
		if e := place.Stop(); err == nil {
			err = e
		}
	}()
	script, err := kit.Script("private-libvirtd.sh")
	if err != nil {
		return err
	}
	t.add(runTests("this machine, libvirtd", virt,
		[]string{script, "join", home, "env", uriVariable, conform, "-test.run=OnADaemon$"}))
	return nil
}

// buildTests builds the test binary of a package.
func buildTests(out, tags, pkg string) error {
	if text, err := exec.Command("go", "test", "-c", "-tags="+tags, "-o", out, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c %s: %w: %s", pkg, err, text)
	}
	return nil
}

// runTests runs a test binary that is there already, in the directory of its
// package, and counts its tests.
func runTests(where, pkg string, args []string) tally {
	args = append([]string{"tool", "test2json", "-t", "-p", where}, append(args, "-test.v=test2json", "-test.timeout=5m")...)
	cmd := exec.Command("go", args...)
	cmd.Dir = pkg
	t := counted(false, where, cmd)
	if t.passed+t.failed == 0 {
		fmt.Printf("   %s: no test passed\n", where)
		t.failed++
	}
	return t
}
