package seed

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	aptFlags   = "-q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
	aptInstall = "apt-get " + aptFlags + " -y --no-install-recommends -o Dpkg::Options::=--force-confold install qemu-guest-agent"
)

// installCalls is one try with each package manager.
var installCalls = map[string][]string{
	"apt-get": {"timeout 120 apt-get " + aptFlags + " update", "apt-get " + aptFlags + " update", aptInstall},
	"dnf":     {"dnf -y --setopt=timeout=20 --setopt=retries=2 --setopt=install_weak_deps=False install qemu-guest-agent"},
	"yum":     {"yum -y --setopt=timeout=20 --setopt=retries=2 install qemu-guest-agent"},
	"zypper":  {"zypper --non-interactive install --no-recommends qemu-guest-agent"},
	"apk":     {"apk add --no-cache --no-progress --wait 120 qemu-guest-agent"},
}

// managers are in the order in which the script prefers them.
var managers = []string{"apt-get", "dnf", "yum", "zypper", "apk"}

var systemdCalls = []string{
	"systemctl enable qemu-guest-agent.service",
	"udevadm trigger --action=change --subsystem-match=virtio-ports",
	"timeout 30 systemctl start qemu-guest-agent.service",
	"systemctl start qemu-guest-agent.service",
}

var openrcCalls = []string{
	"rc-update add qemu-guest-agent default",
	"rc-service qemu-guest-agent status",
	"timeout 30 rc-service qemu-guest-agent start",
	"rc-service qemu-guest-agent start",
}

// installBody makes a manager's stub install the agent at its install step.
const installBody = `case " $* " in *" install "*|*" add "*) ` + installs + `;; esac`

// inShells runs a test in every shell there is.
func inShells(t *testing.T, test func(t *testing.T, shell []string)) {
	t.Parallel()
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			needTool(t, shell.command[0], shell.debianPackage)
			test(t, shell.command)
		})
	}
}

func diffCalls(t *testing.T, want, got []string, output string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s\noutput:\n%s", diff, output)
	}
}

func TestSeed25_Seed27_ScriptInstallsAndStarts(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		for i, manager := range managers {
			for _, system := range []string{"systemd", "openrc"} {
				t.Run(manager+" "+system, func(t *testing.T) {
					g, start := newGuest(t), systemdCalls
					for _, m := range managers[i:] { // those it is preferred to are there too
						g.stub(m, installBody)
					}
					if system == "systemd" {
						g.systemd()
					} else {
						g.openrc()
						start = openrcCalls
					}
					calls, output := g.run(shell)
					diffCalls(t, slices.Concat(installCalls[manager], start), calls, output)
					if !strings.HasSuffix(output, "the guest agent is installed and started\n") {
						t.Errorf("output:\n%s", output)
					}
				})
			}
		}
	})
}

// A second run repeats nothing that would change something.
func TestSeed27_ScriptIsIdempotent(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.stub("apk", installBody)
		g.openrc()
		g.run(shell)
		conf := "# settings\n#GA_PATH=\"/dev/x\"\n\nGA_PATH=\"/dev/vport2p1\"\n"
		if diff := cmp.Diff(conf, g.read("etc/conf.d/qemu-guest-agent")); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}
		calls, output := g.run(shell)
		diffCalls(t, openrcCalls[:2], calls, output)
		if diff := cmp.Diff(conf, g.read("etc/conf.d/qemu-guest-agent")); diff != "" {
			t.Errorf("settings after the second run (-want +got):\n%s", diff)
		}
	})
}

func TestSeed27_ScriptLeavesGAPathAlone(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		for name, prepare := range map[string]func(*guest){
			"link is there": func(g *guest) { g.write("dev/virtio-ports/org.qemu.guest_agent.0", "") },
			"set":           func(g *guest) { g.write("etc/conf.d/qemu-guest-agent", "GA_PATH=/dev/mine\n") },
			"set, exported": func(g *guest) { g.write("etc/conf.d/qemu-guest-agent", "  export GA_PATH=/dev/mine\n") },
			"no device":     func(g *guest) { g.remove("dev/vport2p1") },
		} {
			t.Run(name, func(t *testing.T) {
				g := newGuest(t)
				g.stub("qemu-ga", "")
				g.openrc()
				prepare(g)
				before := g.read("etc/conf.d/qemu-guest-agent")
				calls, output := g.run(shell)
				diffCalls(t, openrcCalls, calls, output)
				if diff := cmp.Diff(before, g.read("etc/conf.d/qemu-guest-agent")); diff != "" {
					t.Errorf("settings (-before +after):\n%s", diff)
				}
			})
		}
	})
}

func TestSeed25_ScriptWithABakedInAgent(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		for _, place := range []string{"bin/qemu-ga", "usr/libexec/qemu-ga"} {
			g := newGuest(t)
			g.systemd()
			g.stub("apt-get", installBody)
			g.stub("qemu-ga", "")
			if place != "bin/qemu-ga" {
				g.remove("bin/qemu-ga")
				g.stub("../"+place, "")
			}
			calls, output := g.run(shell)
			diffCalls(t, systemdCalls, calls, output)
		}
	})
}
