//go:build package

package pack

import (
	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// step is something that happens to the agent and must mean nothing to VMs.
type step struct {
	what, script string
	gone         bool // no agent runs after it
}

// walk takes steps; after each the VMs are what they were before all.
func (h *host) walk(before []vm, steps []step) {
	h.Helper()
	for _, s := range steps {
		pid := h.property("MainPID")
		h.sh(s.script, unit, middle)
		if s.gone {
			if left := h.sh(`pgrep --uid egress-hostagent --list-full || true`); left != "" {
				h.Errorf("after %s these still run: %s", s.what, left)
			}
		} else {
			h.agent("the agent runs after "+s.what, func(now status.Host) bool { return connected(now) && allRun(now) })
		}
		if now := h.property("MainPID"); s.gone != (now == "0") || (now == pid) != (s.what == "reload") {
			h.Errorf("%s: the agent was process %s and is %s", s.what, pid, now)
		}
		h.unchanged(before, s.what)
	}
}

// agentComesAndGoes: the service is treated in every way that systemd and
// admins know.
func agentComesAndGoes(h *host) {
	before := h.vms()
	h.walk(before, []step{
		{what: "restart", script: `systemctl restart "$1"`},
		{what: "stop", script: `systemctl stop "$1"`, gone: true},
		{what: "start", script: `systemctl start "$1"`},
		{what: "SIGKILL", script: `systemctl kill --signal KILL "$1"; until [ "$(systemctl show -P NRestarts "$1")" = 1 ]; do sleep 0.2; done`},
		{what: "reload", script: `systemctl reload "$1"`},
		// As needrestart does after an upgrade of a library that both use.
		{what: "restart with libvirtd", script: `systemctl restart libvirtd.service "$1"`},
	})
	// Libvirt's disconnect: nothing is to be seen, so nothing is done.
	const sockets = "libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
	h.sh(`systemctl stop libvirtd.service ` + sockets)
	h.agent("the loss of libvirt is shown", func(s status.Host) bool { return !connected(s) })
	h.sh(`systemctl start ` + sockets + ` libvirtd.service`)
	h.running()
	h.unchanged(before, "a pause of libvirtd")
}

// packageComesAndGoes: upgrade, remove, reinstall, purge, a first installation
// again.
func packageComesAndGoes(h *host) {
	before, known := h.vms(), h.running()
	h.walk(before, []step{{what: "upgrade", script: `set -- "/srv/$2.deb"; ` + apt}})
	if s, _ := h.status(); s.Version != middle {
		h.Errorf("version %s runs, want %s", s.Version, middle)
	}
	h.walk(before, []step{
		{what: "remove", script: `apt-get --quiet --yes remove egress-hostagent`, gone: true},
		{what: "reinstall", script: `start=$1; set -- "/srv/$2.deb"; ` + apt + `
			systemctl is-enabled "$start"; systemctl start "$start"`},
		{what: "purge", script: `apt-get --quiet --yes purge egress-hostagent`, gone: true},
	})
	if left := h.sh(`ls -d /var/lib/egress-hostagent /etc/egress-hostagent/config.toml 2>/dev/null || true`); left != "" {
		h.Errorf("after purge there is still %s", left)
	}
	h.sh(apt, "/srv/"+middle+".deb")
	h.sh(configure, proxies...)
	h.sh(`systemctl enable --now "$1"`, unit)
	adopted := h.running()
	h.unchanged(before, "purge and a first installation")
	if diff := cmp.Diff(livesOf(known), livesOf(adopted)); diff != "" {
		h.Errorf("proxies (-before the purge +after):\n%s", diff)
	}
}

// life is what the agent has to know of a proxy's life.
type life struct {
	Name, UUID, Instance string
	Starts               int // by the agent
}

func livesOf(s status.Host) (all []life) {
	for _, p := range s.Proxies {
		all = append(all, life{p.Name, p.UUID, p.Instance, p.Starts})
	}
	return all
}
