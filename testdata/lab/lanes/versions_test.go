//go:build versions

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// agentBinary is the agent beside the test binary: a file tree of another
// release has no Go to build one with.
func agentBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(self), "egress-hostagent")
}

// output runs a command that has to succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestAgent_Modular is the agent as a user gets it, on daemons that are
// modular, from what needs no libvirt to a domain's whole life.
func TestAgent_Modular(t *testing.T) {
	bin := agentBinary(t)
	if _, err := os.Stat("/usr/sbin/libvirtd"); err == nil {
		t.Fatal("there is a libvirtd here, so the daemons are not modular")
	}
	t.Log(output(t, bin, "version"), output(t, "virsh", "-c", "qemu:///system", "version", "--daemon"))

	repo, err := kit.Repo()
	if err != nil {
		t.Fatal(err)
	}
	specs := filepath.Join(repo, "testdata", "specs")
	output(t, bin, "--config", filepath.Join(specs, "config.toml"), "validate", filepath.Join(specs, "squid.toml"))

	dir, err := os.MkdirTemp("", "egress-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	place, err := kit.System(dir)
	if err != nil {
		t.Fatal(err)
	}
	image, err := kit.EmptyImage(dir)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := place.Prepare(bin, kit.Setting{Acceleration: "tcg", Image: image, DeletionDelay: "1s", ShutdownGrace: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := agent.CLI("doctor")
	if err != nil || !strings.Contains(out, "virtqemud") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	life(t, agent)
}

// life drops a spec and removes it.
func life(t *testing.T, agent *kit.Agent) {
	t.Helper()
	domains := func() string {
		return strings.TrimSpace(output(t, "virsh", "-q", "-c", "qemu:///system", "list", "--all"))
	}
	if err := agent.Start(); err != nil {
		t.Fatalf("%v\n%s", err, agent.Tail(20))
	}
	t.Cleanup(func() {
		if err := agent.Stop(); err != nil {
			t.Errorf("agent: %v", err)
		}
		if t.Failed() {
			t.Log(agent.Tail(40))
		}
	})
	if err := agent.Drop("squid", func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	err := agent.Wait(time.Minute, "the domain runs", func(h status.Host) bool {
		if len(h.Proxies) != 1 {
			return false
		}
		c, _ := h.Proxies[0].Condition(status.Running)
		return c.Status == status.True
	})
	if err != nil {
		t.Fatal(err)
	}
	// While libvirt starts a domain, virsh calls it paused for a moment.
	eventually(t, "virsh lists one domain, which runs", func() bool {
		return strings.HasSuffix(domains(), "running") && !strings.Contains(domains(), "\n")
	})
	if err := agent.Remove("squid.toml", "squid.yaml"); err != nil {
		t.Fatal(err)
	}
	err = agent.Wait(time.Minute, "the proxy is gone", func(h status.Host) bool { return len(h.Proxies) == 0 })
	if err != nil {
		t.Fatal(err)
	}
	if got := domains(); got != "" {
		t.Errorf("virsh still lists %q", got)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}
