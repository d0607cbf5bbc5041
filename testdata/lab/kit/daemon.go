package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Daemons of a private libvirtd, for PID and Signal.
const (
	Libvirtd = "libvirtd"
	Virtlogd = "virtlogd"
)

var errNotPrivate = errors.New("this place has no libvirtd of its own")

// Down ends libvirtd with a signal's name ("TERM", "KILL") and waits for its
// end; its guests run on.
func (p *Place) Down(signal string) error { return p.script("down", signal) }

// Up starts libvirtd again and waits until it answers.
func (p *Place) Up() error { return p.script("up") }

func (p *Place) script(verb string, args ...string) error {
	if p.dir == "" {
		return errNotPrivate
	}
	script, err := Script("private-libvirtd.sh")
	if err != nil {
		return err
	}
	out, err := exec.Command(script, append([]string{verb, p.dir}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("private libvirtd: %s: %w: %s", verb, err, out)
	}
	return nil
}

// PID is the process id of one of the place's daemons.
func (p *Place) PID(daemon string) (int, error) {
	if p.dir == "" {
		return 0, errNotPrivate
	}
	return readPID(filepath.Join(p.dir, "run", daemon+".pid"))
}

// Signal sends a signal to one of the place's daemons. SIGSTOP has taken
// effect when Signal returns.
func (p *Place) Signal(daemon string, sig syscall.Signal) error {
	pid, err := p.PID(daemon)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("signal %s (%d): %w", daemon, pid, err)
	}
	for sig == syscall.SIGSTOP {
		stopped, err := Stopped(pid)
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// QEMU gives the process ids of the running domains, by domain name.
func (p *Place) QEMU() (map[string]int, error) {
	if p.dir == "" {
		return nil, errNotPrivate
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "run/libvirt/qemu/*.pid"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".pid")
		if name == "driver" { // libvirtd's own
			continue
		}
		pid, err := readPID(f)
		if err != nil { // a domain that is just starting or gone meanwhile
			continue
		}
		out[name] = pid
	}
	return out, nil
}

// Virsh runs virsh commands, as an admin would, in one virsh process; it
// gives what they printed.
func (p *Place) Virsh(ctx context.Context, commands ...string) (string, error) {
	out, err := p.Output(ctx, "virsh", "-q", "-c", p.URI, strings.Join(commands, "; "))
	return strings.TrimSpace(out), err
}

// Clients gives the ids of the connections that a process has to libvirtd,
// which is asked for them.
func (p *Place) Clients(ctx context.Context, pid int) ([]string, error) {
	admin := []string{"virt-admin", "-q", "-c", "libvirtd:///system"}
	list, err := p.Output(ctx, append(admin, "client-list libvirtd")...)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		info, err := p.Output(ctx, append(admin, "client-info libvirtd "+fields[0])...)
		if err != nil { // it has gone meanwhile
			continue
		}
		if attribute(info, "unix_process_id") == strconv.Itoa(pid) {
			out = append(out, fields[0])
		}
	}
	return out, nil
}

// attribute finds a line "name : value" in what virt-admin printed.
func attribute(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readPID(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("process id in %s: %w", file, err)
	}
	return pid, nil
}
