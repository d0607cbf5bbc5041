//go:build package

package pack

import (
	"strings"
)

// get rid of the package, as a program does that asks nobody.
const (
	removes = `DEBIAN_FRONTEND=noninteractive apt-get -qq --yes -o Dpkg::Use-Pty=0 remove egress-hostagent </dev/null`
	purges  = `DEBIAN_FRONTEND=noninteractive apt-get -qq --yes -o Dpkg::Use-Pty=0 purge egress-hostagent </dev/null`
)

// stateDir is the agent's memory.
const stateDir = "/var/lib/egress-hostagent"

// gone checks that no agent runs and that dpkg has the package in that state,
// with nothing to complain of.
func (h *host) gone(want string) {
	h.Helper()
	if left := h.sh(`pgrep --uid egress-hostagent --list-full || true`); left != "" {
		h.Errorf("these still run: %s", left)
	}
	if got := h.sh(`dpkg --audit; dpkg-query -W -f '${db:Status-Abbrev}' egress-hostagent 2>/dev/null || true`); got != want {
		h.Errorf("dpkg has the package as %q, want %q", got, want)
	}
}

// removeAndReinstall: a removed package has left state, configuration and
// images; a later installation finds them, and the unit enabled as it was.
func removeAndReinstall(h *host) {
	tree, state, config := h.files(imageTree), h.files(stateDir), h.files("/etc/egress-hostagent")
	h.sh(removes)
	h.gone("rc")
	h.sameFiles("remove", tree, imageTree)
	h.sameFiles("remove", config, "/etc/egress-hostagent")
	if now := h.files(stateDir); now == "" || len(now) < len(state)/2 {
		h.Errorf("after remove the state is\n%s\nit was\n%s", now, state)
	}
	h.install(oldest, "-o", "Dpkg::Options::=--force-confold")
	if got := h.stands(); got != "enabled inactive" {
		h.Errorf("after remove and reinstallation the unit is %s, want enabled and not started", got)
	}
	h.sh(`systemctl start "$1"`, unit)
	h.runs("one")
	h.sameFiles("reinstallation", tree, imageTree)
}

// purge takes the agent's memory and configuration, and nothing else.
func purge(h *host) {
	user, tree := h.sh(`id egress-hostagent`), h.files(imageTree)
	h.sh(`echo mine >/etc/egress-hostagent/probe.credentials`)
	h.sh(purges)
	h.gone("")
	h.sameFiles("purge", tree, imageTree)
	if left := h.sh(`ls -d "$1" "$2" /run/egress-hostagent /etc/systemd/system/*/egress-hostagent.service 2>/dev/null || true`,
		stateDir, configFile); left != "" {
		h.Errorf("after purge there is still %s", left)
	}
	if left := h.sh(`ls /etc/egress-hostagent; ls /etc/egress-hostagent/proxies.d`); left != "probe.credentials\nproxies.d\none.toml" {
		h.Errorf("of what the admin made there is %q", left)
	}
	if now := h.sh(`id egress-hostagent`); now != user {
		h.Errorf("the user is %s, was %s", now, user)
	}
	h.install(oldest)
	if got := h.stands(); got != "disabled inactive" {
		h.Errorf("after purge and installation the unit is %s", got)
	}
	h.sameFiles("installation after purge", tree, imageTree)
	h.sh(purges + `; rm -r /etc/egress-hostagent`)
}

// fillTree puts files into an image tree, as if proxies had been there.
const fillTree = `mkdir -p "$1"/{base,disk,seed}; echo host >"$1/.egress-tree"
	for f in base/0123.qcow2 disk/one.0123.qcow2 disk/one.0123.json seed/one.0123.iso; do echo "$f" >"$1/$f"; done`

// mounts: places of the package that are mount points or links when it is
// upgraded, removed and purged.
func mounts(h *host) {
	for name, place := range map[string]string{
		"tree is a mount":           `rm -rf "$1"; mkdir "$1"; mount -t tmpfs none "$1"`,
		"tree is a link":            `rm -rf "$1"; mkdir -p /srv/elsewhere; ln -s /srv/elsewhere "$1"`,
		"specs are a mount":         `mkdir -p "$2"; mount -t tmpfs none "$2"; echo keep >"$2/keep.toml"`,
		"state is a mount":          `mkdir -p "$3"; mount -t tmpfs none "$3"; echo gone >"$3/keep"`,
		"state is a link, to trees": `rm -rf "$3"; mkdir -p /srv/pool; echo 1 >/srv/pool/disk; ln -s /srv/pool "$3"`,
	} {
		specs := "/etc/egress-hostagent/proxies.d"
		h.sh(`mkdir -p "$(dirname "$1")"; `+place+`; `+fillTree, imageTree, specs, stateDir)
		h.install(oldest)
		tree := h.files(imageTree + "/")
		// Mounted specs are the admin's, with what is in them.
		mine := h.sh(`find "$1" /srv/pool -name keep.toml -o -name disk 2>/dev/null || true`, specs)
		h.install(middle)
		for _, script := range []string{removes, purges} {
			if out := h.sh(script + ` 2>&1`); strings.Contains(strings.ToLower(out), "error") {
				h.Errorf("%s: %s", name, out)
			}
			h.sameFiles(name, tree, imageTree+"/")
			if now := h.sh(`find "$1" /srv/pool -name keep.toml -o -name disk 2>/dev/null || true`, specs); now != mine {
				h.Errorf("%s: of the admin's files there is now %q", name, now)
			}
		}
		h.gone("")
		h.sh(`for d; do ! mountpoint -q "$d" || umount "$d"; rm -rf "$d"; done; rm -rf /srv/elsewhere /srv/pool`,
			imageTree, specs, stateDir)
	}
}
