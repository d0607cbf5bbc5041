// Package kit drives the lab from Go, for the demo and for the tests that need
// a real libvirtd and a real guest: a place to run in, an agent in that place,
// and waiting for what the agent says.
//
// The scripts beside it own how a guest image is made and how a private
// libvirtd comes and goes; kit calls them.
package kit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// User is the agent's own, unprivileged user.
const User = "egress-hostagent"

// Repo is the root of the checkout the working directory is in.
func Repo() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("the working directory is in no checkout of this project: %v", err)
}

// Script gives the path of a script of the lab.
func Script(name string) (string, error) {
	repo, err := Repo()
	return filepath.Join(repo, "testdata", "lab", name), err
}

// Build builds a command of this module into dir and gives its path.
func Build(dir, pkg string, flags ...string) (string, error) {
	repo, err := Repo()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, filepath.Base(pkg))
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir, cmd.Stderr = repo, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w", pkg, err)
	}
	return out, os.Chmod(out, 0o755)
}

// GuestImage makes or reuses the bootable guest image; it says on progress
// what it does.
func GuestImage(progress io.Writer) (string, error) {
	script, err := Script("guest-image.sh")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(script)
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	lines := strings.Fields(string(out))
	return lines[len(lines)-1], nil
}

// Place is where an agent and its libvirt run.
type Place struct {
	Home    string // for the agent's files, as seen from here; the agent's user may write there
	Inside  string // the same directory as the agent sees it
	Tree    string // image tree as the agent sees it; it exists
	URI     string // of libvirt
	Gateway string // the host's address on network "default"

	wrap func(asUser bool, args []string) []string
	stop func() error
	dir  string // of a private libvirtd; empty elsewhere
}

// Command prepares a command in the place, as root or as the agent's user.
func (p *Place) Command(ctx context.Context, asUser bool, args ...string) *exec.Cmd {
	args = p.wrap(asUser, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// Output runs a command in the place as root and gives what it printed.
func (p *Place) Output(ctx context.Context, args ...string) (string, error) {
	out, err := p.Command(ctx, false, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Stop ends what the place runs and removes its files.
func (p *Place) Stop() error { return p.stop() }

// Private starts a libvirtd of its own, with its network, beneath dir.
func Private(dir string) (*Place, error) {
	script, err := Script("private-libvirtd.sh")
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(script, "start", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("private libvirtd: %w: %s", err, out)
	}
	return &Place{
		dir:  dir,
		Home: filepath.Join(dir, "home"), Inside: "/var/lib/" + User,
		Tree: "/var/lib/libvirt/images/egress", URI: "qemu:///system", Gateway: "192.168.122.1",
		wrap: func(asUser bool, args []string) []string {
			verb := "join"
			if asUser {
				verb = "user"
			}
			return append([]string{script, verb, dir}, args...)
		},
		stop: func() error {
			if out, err := exec.Command(script, "stop", dir).CombinedOutput(); err != nil {
				return fmt.Errorf("stop private libvirtd: %w: %s", err, out)
			}
			return nil
		},
	}, nil
}
