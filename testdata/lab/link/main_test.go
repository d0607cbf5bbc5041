//go:build libvirtd

package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// shared is what all tests of the package use: one libvirtd, which each test
// leaves up and empty, and one build of the agent.
var shared struct {
	place *kit.Place
	agent string // the program
	image string // a disk with nothing on it to boot
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "link:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "link-") // short: paths of sockets are
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the agent and QEMU are other users
		return 1, err
	}
	// The race detector ends a process that raced with exit code 66.
	if shared.agent, err = kit.Build(dir, "./cmd/egress-hostagent", "-race", "-tags=libvirt_dlopen"); err != nil {
		return 1, err
	}
	if shared.image, err = kit.EmptyImage(dir); err != nil {
		return 1, err
	}
	if shared.place, err = kit.Private(filepath.Join(dir, "lab")); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.place.Stop(); stopErr != nil {
			code, err = 1, stopErr
		}
	}()
	if err := installHook(context.Background(), shared.place); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// soak picks the count or wait of the long form of a test.
func soak[T any](short, long T) T {
	if os.Getenv("SOAK") == "1" {
		return long
	}
	return short
}
