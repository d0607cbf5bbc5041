package seed

import (
	"strings"
	"testing"
)

func TestSeed25_ScriptWithoutAPort(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.systemd()
		g.stub("apt-get", installBody)
		g.stub("modprobe", "")
		g.remove("sys/class/virtio-ports/vport2p1")
		calls, output := g.run(shell)
		diffCalls(t, []string{"modprobe virtio_console"}, calls, output)
		if want := "egress-guest-agent: this machine has no guest agent channel, nothing to do\n"; output != want {
			t.Errorf("output %q, want %q", output, want)
		}
	})
}

func TestScriptFindsThePortAfterModprobe(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.systemd()
		g.stub("qemu-ga", "")
		g.remove("sys/class/virtio-ports")
		g.stub("modprobe", `/bin/mkdir -p "$root/sys/class/virtio-ports/vport1p1"; echo org.qemu.guest_agent.0 >"$root/sys/class/virtio-ports/vport1p1/name"`)
		calls, output := g.run(shell)
		diffCalls(t, append([]string{"modprobe virtio_console"}, systemdCalls...), calls, output)
	})
}

func TestSeed21_Seed24_ScriptWithoutManagerOrInit(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.systemd()
		calls, output := g.run(shell)
		diffCalls(t, nil, calls, output)
		if !strings.Contains(output, "no package manager") {
			t.Errorf("output:\n%s", output)
		}
		g = newGuest(t)
		g.stub("qemu-ga", "")
		calls, output = g.run(shell)
		diffCalls(t, nil, calls, output)
		if !strings.Contains(output, "no init system") {
			t.Errorf("output:\n%s", output)
		}
	})
}

// A service that does not start is said and is no failure.
func TestSeed21_Seed24_ScriptWhenTheServiceFails(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.systemd()
		g.stub("qemu-ga", "")
		g.stub("systemctl", fails)
		g.remove("bin/udevadm", "bin/timeout") // neither has to be there
		calls, output := g.run(shell)
		diffCalls(t, []string{systemdCalls[0], systemdCalls[3]}, calls, output)
		if !strings.HasSuffix(output, "installed, but was not started\n") {
			t.Errorf("output:\n%s", output)
		}
	})
}
