//go:build package

package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// hostPatience bounds every wait for something that must come.
const hostPatience = 90 * time.Second

// unit is the agent's.
const unit = "egress-hostagent.service"

// host is a container in which systemd, libvirt and the agent's package are
// what they are on a KVM host.
type host struct {
	*testing.T
	box *box
}

// in gives the same host to a part of the test.
func (h *host) in(t *testing.T) *host { return &host{T: t, box: h.box} }

// sh runs a script inside, as root, and gives what it printed on standard
// output; $1 and so on are the arguments.
func (h *host) sh(script string, args ...string) string {
	h.Helper()
	out, err := h.try(script, args...)
	if err != nil {
		h.Fatalf("%s: %v", script, err)
	}
	return out
}

// try is sh for what may fail.
func (h *host) try(script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := h.box.command(ctx, append([]string{"bash", "-euc", script, "bash"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = &shellError{err, stderr.String() + string(out)}
	}
	return strings.TrimSpace(string(out)), err
}

// shellError is a script's exit with what it printed.
type shellError struct {
	error
	printed string
}

func (e *shellError) Error() string { return e.error.Error() + ": " + e.printed }
func (e *shellError) Unwrap() error { return e.error }

// await waits for a condition.
func (h *host) await(what string, cond func() bool) {
	h.Helper()
	deadline := time.Now().Add(hostPatience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			h.Fatalf("%s: not within %s", what, hostPatience)
		}
		<-tick.C
	}
}

// status is what the agent says now; ok is false when none answers.
func (h *host) status() (s status.Host, ok bool) {
	h.Helper()
	// Exit code 1 says that something is not ready: no guest here has an address.
	out, err := h.try(`egress-hostagent status --json`)
	if code := (*exec.ExitError)(nil); err != nil && !(asExit(err, &code) && code.ExitCode() == 1) {
		return status.Host{}, false
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return status.Host{}, false
	}
	return s, true
}

// agent waits for a condition on the agent's status and gives the status.
func (h *host) agent(what string, cond func(status.Host) bool) (s status.Host) {
	h.Helper()
	h.await(what, func() bool {
		now, ok := h.status()
		s = now
		return ok && cond(now)
	})
	return s
}

// running waits until the agent is content with all proxies.
func (h *host) running() status.Host {
	h.Helper()
	return h.agent("all proxies run", func(s status.Host) bool { return connected(s) && allRun(s) })
}

func allRun(s status.Host) bool {
	return len(s.Proxies) == len(proxies) && !slices.ContainsFunc(s.Proxies, func(p status.Proxy) bool {
		return !is(p, status.Running) || !is(p, status.Synced) || p.Next != ""
	})
}

func connected(s status.Host) bool {
	c, ok := s.Condition(status.LibvirtConnected)
	return ok && c.Status == status.True
}

func is(p status.Proxy, typ string) bool {
	c, ok := p.Condition(typ)
	return ok && c.Status == status.True
}

// property is one of the agent's unit, as systemd has it.
func (h *host) property(name string) string {
	h.Helper()
	return h.sh(`systemctl show --property "$1" --value "$2"`, name, unit)
}

// reboot lets the machine go down and come up again as an admin does it.
func (h *host) reboot() {
	h.Helper()
	const which = `cat /proc/sys/kernel/random/boot_id`
	before := h.sh(which)
	_, _ = h.try(`systemctl reboot`) // the machine may be gone before the answer
	h.await("the machine is up again", func() bool {
		now, err := h.try(which)
		return err == nil && now != before
	})
}

// asExit tells whether err is that of a command that ended by itself.
func asExit(err error, exit **exec.ExitError) bool { return errors.As(err, exit) }
