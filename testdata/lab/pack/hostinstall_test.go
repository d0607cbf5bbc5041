//go:build package

package pack

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// apt installs packages given as files, as an operator does.
const apt = `DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends \
	-o Dpkg::Options::=--force-confold -o APT::Sandbox::User=root install "$@"`

// configure writes the configuration and the specs.
const configure = `cat /srv/config.toml >/etc/egress-hostagent/config.toml
	for n; do install -m 0640 -g egress-hostagent /srv/spec.toml "/etc/egress-hostagent/proxies.d/$n.toml"; done`

// libvirtComesLater installs the agent's package first, and libvirt under the
// agent that runs.
func libvirtComesLater(h *host) {
	h.sh(apt, "/srv/"+oldest+".deb")
	if enabled := h.sh(`systemctl is-enabled "$1" || true; systemctl is-active "$1" || true`, unit); enabled != "disabled\ninactive" {
		h.Errorf("after the package's installation: %s", enabled)
	}
	h.sh(configure, proxies...)
	h.sh(`systemctl enable --now "$1"`, unit)
	h.agent("the agent waits for libvirt", func(s status.Host) bool {
		return !connected(s) && len(s.Proxies) == len(proxies)
	})
	h.sh(`set -- /opt/libvirt/*.deb; ` + apt)
	h.agent("domains are defined", func(s status.Host) bool { return s.Managed == len(proxies) })
	// Debian leaves this to the admin.
	h.sh(`virsh -q net-autostart default; virsh -q net-start default`)
	h.running()
	if active := h.property("ActiveState"); active != "active" {
		h.Errorf("the unit is %s", active)
	}
}

// filesAndSandbox looks at what the agent made and how it runs.
func filesAndSandbox(h *host) {
	const list = `cd "$1"; stat --format '%A %U %G %n' . .egress-tree * base/*.qcow2 {disk,seed,console}/a.*`
	got := strings.Split(h.sh(list, tree), "\n")
	for i := range got { // names with a digest or an instance id
		got[i] = digits(got[i])
	}
	want := []string{
		"drwx--s--- egress-hostagent libvirt-qemu .",
		"-rw-r----- egress-hostagent libvirt-qemu .egress-tree",
		"drwx--s--- egress-hostagent libvirt-qemu base",
		"drwx--s--- egress-hostagent libvirt-qemu console",
		"drwx--s--- egress-hostagent libvirt-qemu disk",
		"drwx--s--- egress-hostagent libvirt-qemu seed",
		"-r--r----- egress-hostagent libvirt-qemu base/*.qcow2",
		"-rw-r----- egress-hostagent libvirt-qemu disk/a.*.json",
		"-rw-rw---- egress-hostagent libvirt-qemu disk/a.*.qcow2",
		"-rw-r----- egress-hostagent libvirt-qemu seed/a.*.iso",
		"-rw-r----- egress-hostagent libvirt-qemu console/a.log",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.Errorf("files of the image tree (-want +got):\n%s", diff)
	}
	agent := h.sh(`awk '$1 ~ /^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):$/ {print $1, $2}' "/proc/$1/status"`, h.property("MainPID"))
	sandbox := "Uid: " + h.sh(`id -u egress-hostagent`) + "\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2"
	if diff := cmp.Diff(sandbox, agent); diff != "" {
		h.Errorf("the agent's process (-want +got):\n%s", diff)
	}
	for _, v := range h.vms() {
		qemu(h, v)
	}
}

// qemu looks at a VM's process: another user's, under emulation, with the
// agent's files open, in no control group of the agent's.
func qemu(h *host, v vm) {
	const look = `ps --no-headers -o user:20 "$1"
		tr '\0' '\n' <"/proc/$1/cmdline" | grep -A 1 -x -e -accel | tail -n 1
		ls -l "/proc/$1/fd" | grep -cF " -> $2/disk/$3." || true
		ls -l "/proc/$1/fd" | grep -cF " -> $2/seed/$3." || true
		grep -c egress-hostagent "/proc/$1/cgroup" || true`
	if got := h.sh(look, v.PID, tree, v.Name); got != "libvirt-qemu\ntcg\n1\n1\n0" {
		h.Errorf("QEMU of %s: user, acceleration, its disk and seed open, in the agent's control group: %s", v.Name, got)
	}
}

// digits hides the part of a name that differs from run to run.
func digits(line string) string {
	at := strings.LastIndexByte(line, '/')
	first, rest, dotted := strings.Cut(line[at+1:], ".")
	if at < 0 || !dotted || rest == "log" {
		return line
	}
	if strings.HasSuffix(line[:at], " base") {
		return line[:at+1] + "*." + rest
	}
	return line[:at+1] + first + ".*" + rest[strings.LastIndexByte(rest, '.'):]
}

// asAgent reads libvirt as the agent's user does.
const asAgent = `runuser -u egress-hostagent -- env HOME=/nonexistent virsh -q -c qemu:///system list`

// polkitRuleAlone takes the agent's user out of group libvirt: the package's
// rule lets it in. Without the rule it is refused, and the group is enough.
func polkitRuleAlone(h *host) {
	const rule = "/usr/share/polkit-1/rules.d/50-egress-hostagent.rules"
	before := h.vms()
	h.sh(`gpasswd --delete egress-hostagent libvirt; systemctl restart "$1"`, unit)
	h.running()
	allowed := func() bool {
		_, err := h.try(asAgent)
		return err == nil
	}
	if !allowed() {
		h.Error("the user is refused although the rule is there")
	}
	h.sh(`mv "$1" /srv/rules`, rule)
	h.await("without rule and group the user is refused", func() bool { return !allowed() })
	h.sh(`gpasswd --add egress-hostagent libvirt`)
	h.await("the group alone lets the user in", allowed)
	h.sh(`mv /srv/rules "$1"`, rule)
	h.unchanged(before, "changes of who may use libvirt")
}
