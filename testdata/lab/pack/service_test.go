//go:build package

package pack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestService follows the README on a fresh machine and then does to the
// service what systemd and an operator do to services.
func TestService(t *testing.T) {
	t.Parallel()
	h := machine(t, releases(t, oldest))
	h.live(t, []part{
		{"Readme", installByReadme},
		{"Case157_NoLibvirt", withoutLibvirt},
		{"Case156_ManySpecs", manySpecs},
		{"TestDriver", onTestDriver},
		{"Case160_Reload", reloads},
		{"Case160_ReloadStorm", reloadStorm},
		{"Case155_Watchdog", watchdog},
		{"Killed", killed},
		{"Case159_BrokenConfig", brokenConfig},
		{"Stop", stop},
		{"I12_Journal", journal},
	})
}

// installByReadme types what README.md says, line by line.
func installByReadme(h *host) {
	lines := readme(h.T)
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "apt install ") {
		h.Fatalf("README.md's lines for Debian are %q, want an apt install and what follows", lines)
	}
	h.sh(`mkdir /srv/download; cp "/srv/released/"$1 /srv/download/`, debOf(oldest))
	h.sh("cd /srv/download; " + lines[0])
	if got := h.stands(); got != "disabled inactive" {
		h.Errorf("after the installation the unit is %s", got)
	}
	for _, line := range lines[1:] {
		h.sh("cd /srv/download; " + line)
	}
	if got := h.stands(); got != "enabled active" {
		h.Errorf("after README.md's lines the unit is %s", got)
	}
}

// withoutLibvirt: the default configuration, no libvirtd, and none to come.
func withoutLibvirt(h *host) {
	h.agent("the agent says that libvirt is not there", func(s status.Host) bool {
		c, ok := s.Condition(status.LibvirtConnected)
		return ok && c.Status == status.False
	})
	if out, err := h.try(`egress-hostagent status`); err == nil || !strings.Contains(out, "LibvirtConnected") {
		h.Errorf("status: %v, %s", err, out)
	}
	h.await("systemctl status says it", func() bool { return strings.Contains(h.property("StatusText"), "libvirt") })
	h.has("NRestarts", "0")
}

// quickly makes systemd's patience short, in a drop-in.
const quickly = `mkdir -p /etc/systemd/system/egress-hostagent.service.d
	printf '[Service]\nWatchdogSec=10s\nRestartSec=1s\n' >/etc/systemd/system/egress-hostagent.service.d/quick.conf
	systemctl daemon-reload; systemctl restart egress-hostagent`

// settings is the machine's configuration: %s is libvirt's URI.
const settings = `cat >/etc/egress-hostagent/config.toml <<END
[libvirt]
uri = "$1"
[probe]
enabled = false
[images.empty]
source = "/srv/empty.qcow2"
sha256 = "$(sha256sum /srv/empty.qcow2 | cut -c 1-64)"
[machine_types.tiny]
cpus = 1
memory = "128MiB"
[credentials.probe]
file = "/etc/egress-hostagent/probe.credentials"
END
`

// canary is a secret: in a spec, and in a credentials file.
const canary = "canary-4711"

// spec writes a spec for each name, in the shell alone: it is called for thousands.
const spec = `text='image = "empty"
machine_type = "tiny"
user_data = "#cloud-config\\npassword: ` + canary + `\\n"
[vars]
token = "` + canary + `"'
	for n; do printf '%s\n' "$text" >"/etc/egress-hostagent/proxies.d/$n.toml"; done
`

// manySpecs: a start with 2000 specs and no libvirt is over soon, and the
// watchdog, which is short here, finds nothing to complain of.
func manySpecs(h *host) {
	h.sh(`qemu-img create -q -f qcow2 /srv/empty.qcow2 1G
		printf 'user:` + canary + `' >/etc/egress-hostagent/probe.credentials
		chgrp egress-hostagent /etc/egress-hostagent/probe.credentials; chmod 0640 /etc/egress-hostagent/probe.credentials`)
	h.sh(settings, "qemu:///system")
	h.sh(`set -- many-{1..2000}; ` + spec)
	h.sh(quickly)
	pid := h.pid()
	first := h.agent("the agent shows 2000 proxies", func(s status.Host) bool { return len(s.Proxies) == 2000 })
	h.agent("the watchdog would have been missed", func(s status.Host) bool { return s.Time.Sub(first.Time) > 15*time.Second })
	h.has("MainPID", pid)
	h.has("NRestarts", "0")
	h.sh(`rm /etc/egress-hostagent/proxies.d/many-*`)
}

// onTestDriver: the whole agent under the unit's sandbox, from a spec that is
// dropped to a domain that runs. The machine has QEMU's group, as with libvirt.
func onTestDriver(h *host) {
	h.sh(`groupadd --system libvirt-qemu`)
	h.sh(settings, "test:///default")
	h.sh(`rm -rf /var/lib/egress-hostagent/*; systemctl restart "$1"`, unit)
	h.sh(spec, "one")
	h.runs("one")
	agent := h.sh(`awk '$1 ~ /^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):$/ {print $1, $2}' "/proc/$1/status"`, h.pid())
	want := "Uid: " + h.sh(`id -u egress-hostagent`) + "\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2"
	if agent != want {
		h.Errorf("the agent's process has\n%s\nwant\n%s", agent, want)
	}
	if got := h.sh(`cd "$1"; stat --format '%A %U %G' . disk/one.*.qcow2`, "/var/lib/libvirt/images/egress"); got !=
		"drwx--s--- egress-hostagent libvirt-qemu\n-rw-rw---- egress-hostagent libvirt-qemu" {
		h.Errorf("image tree and overlay: %s", got)
	}
}

// runs waits until the proxy's domain runs.
func (h *host) runs(name string) {
	h.Helper()
	h.agent(name+" runs", func(s status.Host) bool {
		for _, p := range s.Proxies {
			if p.Name == name {
				return is(p, status.Running) && is(p, status.Synced)
			}
		}
		return false
	})
}

// config waits until the host's ConfigRead has that value.
func (h *host) config(want status.Truth) status.Host {
	h.Helper()
	return h.agent(fmt.Sprintf("ConfigRead is %s", want), func(s status.Host) bool {
		c, ok := s.Condition(status.ConfigRead)
		return ok && c.Status == want
	})
}

// With this systemd writes down each message it gets, and much else.
const (
	hear       = `systemctl log-level debug`
	hearNoMore = `systemctl log-level info`
)

// told is how often systemd got that line in a message of the agent's, as long as it was heard.
func (h *host) told(line string) int {
	h.Helper()
	return len(strings.Fields(h.sh(`journalctl _PID=1 --output=cat | grep -F "$1: Got notification message" |
		grep -oE "[(, ]$2" | tr -d '(, ' || true`, unit, line)))
}

const configFile = "/etc/egress-hostagent/config.toml"

// reloads: a configuration counts, a broken and a missing one do not, and
// everybody sees it.
func reloads(h *host) {
	pid := h.pid()
	h.sh(hear)
	h.sh(`cp "$1" /srv/good.toml; printf '[host]\nname = "%s"\n' renamed >>"$1"; cp "$1" /srv/better.toml; systemctl reload "$2"`, configFile, unit)
	h.agent("the host has its new name", func(s status.Host) bool { return s.Host == "renamed" })
	for what, edit := range map[string]string{"broken": `echo 'x = =' >>"$1"`, "missing": `rm "$1"`} {
		// What systemctl says of it is not the agent's to decide: SIGHUP has no answer.
		h.sh(edit+`; systemctl reload "$2"`, configFile, unit)
		if s := h.config(status.False); s.Host != "renamed" || !connected(s) {
			h.Errorf("%s: the configuration read before does not count any more", what)
		}
		h.await(what+": systemctl status says it", func() bool { return strings.Contains(h.property("StatusText"), configFile) })
		if out, err := h.try(`egress-hostagent status`); err == nil || !strings.Contains(out, "ConfigRejected") {
			h.Errorf("%s: status: %v: %s", what, err, out)
		}
		h.sh(`cp /srv/better.toml "$1"; chgrp egress-hostagent "$1"; systemctl reload "$2"`, configFile, unit)
		h.config(status.True)
	}
	h.has("MainPID", pid)
	h.has("NRestarts", "0")
	h.runs("one")
	if reloads, times := h.told("RELOADING=1"), h.told("MONOTONIC_USEC=[0-9]+"); reloads != 5 || times != 5 {
		h.Errorf("systemd was told of %d reloads, with %d times; want 5", reloads, times)
	}
	h.sh(hearNoMore)
}

// reloadStorm: a hundred in a second, and one that comes before READY=1.
func reloadStorm(h *host) {
	pid := h.pid()
	h.sh(`cp /srv/good.toml "$1"; for i in {1..100}; do kill -HUP "$2"; done`, configFile, pid)
	h.agent("the last edit counts", func(s status.Host) bool { return s.Host != "renamed" })
	h.await("systemd knows that it is over", func() bool { return h.property("ActiveState") == "active" })
	h.has("MainPID", pid)
	for range 3 {
		h.sh(`systemctl restart --no-block "$1"; systemctl reload "$1"`, unit)
	}
	h.has("NRestarts", "0")
	h.runs("one")
}

// restarted does something to the agent's process and waits until systemd has
// made another of it. It is told why the old one ended.
func (h *host) restarted(signal, result string) {
	h.Helper()
	pid, before := h.pid(), h.property("NRestarts")
	h.sh(`kill "-$1" "$2"`, signal, pid)
	h.await("another process serves after "+signal, func() bool {
		now := h.pid()
		return now != "0" && now != pid && h.property("ActiveState") == "active"
	})
	if now := h.property("NRestarts"); now == before {
		h.Errorf("NRestarts is still %s", now)
	}
	// SD_MESSAGE_UNIT_FAILURE_RESULT of sd-messages.h.
	got := h.sh(`journalctl --output=json --output-fields=UNIT_RESULT MESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c UNIT="$1" | tail -n 1`, unit)
	if !strings.Contains(got, `"`+result+`"`) {
		h.Errorf("systemd says of the end by %s: %s, want %s", signal, got, result)
	}
	h.runs("one")
}

// watchdog: a process that stands still is ended and made anew.
func watchdog(h *host) { h.restarted("STOP", "watchdog") }

// killed: what a kernel out of memory does.
func killed(h *host) { h.restarted("KILL", "signal") }

// brokenConfig: not restarted, since that would not help; started by hand once
// it is corrected.
func brokenConfig(h *host) {
	h.sh(`cp "$1" /srv/good.toml; echo 'x = =' >>"$1"`, configFile)
	if _, err := h.try(`systemctl restart "$1"`, unit); err == nil {
		h.Error("systemctl restart succeeds with a broken configuration")
	}
	h.await("the unit has failed", func() bool { return h.property("ActiveState") == "failed" })
	h.has("ExecMainStatus", "78")
	h.has("SubState", "failed") // and not auto-restart
	h.has("NRestarts", "0")
	h.sh(`cp /srv/good.toml "$1"; systemctl start "$2"`, configFile, unit)
	h.runs("one")
}

// stop: at once, announced, and without an error.
func stop(h *host) {
	h.sh(hear+`; systemctl stop "$1"; `+hearNoMore, unit)
	h.has("ActiveState", "inactive")
	h.has("Result", "success")
	h.has("ExecMainStatus", "0")
	if h.told("STOPPING=1") == 0 {
		h.Error("systemd was not told STOPPING=1")
	}
	if left := h.sh(`pgrep --uid egress-hostagent || true`); left != "" {
		h.Errorf("processes of the agent's user are left: %s", left)
	}
}

// journal: what the agent said is there under its unit, and holds no secret.
func journal(h *host) {
	if lines := h.sh(`journalctl --unit="$1" --output=cat --grep='msg=started' | wc -l`, unit); lines == "0" {
		h.Error("the journal has nothing of the agent under its unit")
	}
	if found := h.sh(`journalctl --output=cat --no-pager | grep -F "$1" || true`, canary); found != "" {
		h.Errorf("a secret is in the journal: %s", found)
	}
}
