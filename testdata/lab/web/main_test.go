//go:build web

package web

import (
	"fmt"
	"os"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// shared is what all agents of the tests are made from.
var shared struct {
	agent string // the program
	image string // a disk with nothing on it
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "web-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	// The race detector ends a process that raced with exit code 66.
	if shared.agent, err = kit.Build(dir, "./cmd/egress-hostagent", "-race", "-tags=libvirt_dlopen"); err != nil {
		return 1, err
	}
	if shared.image, err = kit.EmptyImage(dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
