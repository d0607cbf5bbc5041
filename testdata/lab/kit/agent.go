package kit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Setting is what an agent's configuration is made from.
type Setting struct {
	Acceleration  string // "kvm" or "tcg"
	URI           string // of libvirt; empty: the place's
	Libvirt       string // more TOML, for [libvirt]
	Image         string // a qcow2 file, for the key debian-12
	DeletionDelay string
	ShutdownGrace string
	Probe         bool
	Extra         string // more TOML, at the end
}

// Agent is an agent's process in a place, with its files.
type Agent struct {
	Place *Place
	Bin   string   // as the agent sees it
	Env   []string // what its environment has besides, at the next Start

	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended, with this error
	err    error
	client *control.Client
}

// Prepare lays out an agent's files in the place: program, image,
// configuration and an empty spec directory.
func (p *Place) Prepare(bin string, s Setting) (*Agent, error) {
	a := &Agent{
		Place: p, Bin: filepath.Join(p.Inside, "bin", "egress-hostagent"),
		client: control.Dial(filepath.Join(p.Home, "control.sock")),
	}
	for _, dir := range []string{"bin", "proxies.d"} {
		if err := os.MkdirAll(filepath.Join(p.Home, dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := copyFile(bin, filepath.Join(p.Home, "bin", "egress-hostagent"), 0o755); err != nil {
		return nil, err
	}
	image := filepath.Join(p.Home, "debian-12.qcow2")
	if err := copyFile(s.Image, image, 0o644); err != nil {
		return nil, err
	}
	sum, err := digest(image)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(configText, cmp.Or(s.URI, p.URI), s.Acceleration, p.Inside, p.Tree,
		s.DeletionDelay, s.ShutdownGrace, s.Probe, sum, s.Libvirt) + s.Extra
	return a, os.WriteFile(filepath.Join(p.Home, "config.toml"), []byte(text), 0o644)
}

const configText = `[host]
id = "lab"

[libvirt]
uri = %[1]q
acceleration = %[2]q
%[9]s

[specs]
dir = "%[3]s/proxies.d"

[tree]
root = %[4]q

[state]
dir = "%[3]s/state"

[control]
socket = "%[3]s/control.sock"

[policy]
deletion_delay = %[5]q
shutdown_grace = %[6]q

[probe]
enabled = %[7]t

[images.debian-12]
source = "%[3]s/debian-12.qcow2"
sha256 = %[8]q

[machine_types.small]
cpus = 1
memory = "512MiB"
`

// Start runs the agent as its own user; its log goes to agent.log in the
// place's home.
func (a *Agent) Start() error {
	log, err := os.OpenFile(a.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	a.cmd = a.Place.Command(context.Background(), true, a.Bin, "--config", filepath.Join(a.Place.Inside, "config.toml"), "run", "--verbose")
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.Env = append(os.Environ(), a.Env...)
	if err := a.cmd.Start(); err != nil {
		a.cmd = nil
		return err
	}
	cmd, ended := a.cmd, make(chan struct{})
	a.ended = ended
	go func() {
		a.err = cmd.Wait()
		close(ended)
	}()
	return a.Wait(30*time.Second, "the agent answers", func(status.Host) bool { return true })
}

// PID is the agent's process id; 0 when it does not run.
func (a *Agent) PID() int {
	if a.cmd == nil {
		return 0
	}
	return a.cmd.Process.Pid
}

// Signal sends the agent a signal.
func (a *Agent) Signal(sig syscall.Signal) error {
	if a.cmd == nil {
		return errors.New("the agent does not run")
	}
	return a.cmd.Process.Signal(sig)
}

// Stop asks the agent to end and waits for it; an exit code other than 0 is an
// *exec.ExitError.
func (a *Agent) Stop() error {
	if a.cmd == nil {
		return nil
	}
	cmd := a.cmd
	a.cmd = nil
	if err := cmd.Cancel(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-a.ended
	return a.err
}

// CLI runs one of the agent's commands as the agent's user.
func (a *Agent) CLI(args ...string) (string, error) {
	all := append([]string{a.Bin, "--config", filepath.Join(a.Place.Inside, "config.toml")}, args...)
	out, err := a.Place.Command(context.Background(), true, all...).CombinedOutput()
	return string(out), err
}

// Status is what the agent says now.
func (a *Agent) Status() (status.Host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return a.client.Status(ctx)
}

// gone tells whether an agent that was started and not stopped has ended.
func (a *Agent) gone() bool {
	if a.cmd == nil {
		return false
	}
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// Wait waits until the agent's status satisfies cond; not for an agent that
// has ended by itself.
func (a *Agent) Wait(patience time.Duration, what string, cond func(status.Host) bool) error {
	deadline := time.Now().Add(patience)
	for {
		h, err := a.Status()
		if err == nil && cond(h) {
			return nil
		}
		if a.gone() {
			return fmt.Errorf("%s: the agent has ended by itself: %w", what, a.err)
		}
		if time.Now().After(deadline) {
			if err != nil {
				return fmt.Errorf("%s: not within %s: %w", what, patience, err)
			}
			return fmt.Errorf("%s: not within %s: %+v", what, patience, h.Proxies)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Drop puts a spec of testdata/specs, with the files beside it that it names,
// into the agent's spec directory; edit changes the spec's text on the way.
func (a *Agent) Drop(name string, edit func(string) string) error {
	repo, err := Repo()
	if err != nil {
		return err
	}
	for _, ext := range []string{".yaml", ".toml"} { // what the spec names comes first
		b, err := os.ReadFile(filepath.Join(repo, "testdata", "specs", name+ext))
		if err != nil {
			return err
		}
		if err := a.Write(name+ext, edit(string(b))); err != nil {
			return err
		}
	}
	return nil
}

// Write puts a file into the agent's spec directory, whole at once.
func (a *Agent) Write(file, text string) error {
	dir := filepath.Join(a.Place.Home, "proxies.d")
	tmp := filepath.Join(dir, "."+file+".tmp")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, file))
}

// Remove takes files out of the agent's spec directory.
func (a *Agent) Remove(files ...string) error {
	for _, f := range files {
		if err := os.Remove(filepath.Join(a.Place.Home, "proxies.d", f)); err != nil {
			return err
		}
	}
	return nil
}

// Tail is the end of the agent's log.
func (a *Agent) Tail(lines int) string {
	b, err := os.ReadFile(a.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
