//go:build package

package pack

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestDeb takes the deb through all that apt and dpkg do with a package, as
// other states of the unit and of the image tree meet it.
func TestDeb(t *testing.T) {
	t.Parallel()
	h := machine(t, releases(t, oldest, middle, newest))
	h.live(t, []part{
		{"NoSystemd", noSystemd},
		{"I10_Case165_Upgrade", upgrades},
		{"Case167_Conffile", conffile},
		{"I10_Case165_Downgrade", downgrade},
		{"Case168_RemoveAndReinstall", removeAndReinstall},
		{"Case168_Purge", purge},
		{"Case170_Mounts", mounts},
	})
}

// get installs a version as a program does that asks nobody.
const get = `DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --allow-downgrades -o Dpkg::Use-Pty=0 "${@:2}" install "/srv/released/"$1 </dev/null`

// installs a version, over whatever is there.
func (h *host) install(version string, options ...string) {
	h.Helper()
	h.sh(get, append([]string{debOf(version)}, options...)...)
}

// noSystemd: in a root in which nothing runs, without /proc, and from outside
// of it, no maintainer script fails, nor leaves anything half done.
func noSystemd(h *host) {
	const bare = `mkdir /run/bare /srv/bare
		mount -t tmpfs none /run/bare; mkdir /run/bare/{up,work}
		mount -t overlay none -o lowerdir=/,upperdir=/run/bare/up,workdir=/run/bare/work /srv/bare
		cp "/srv/released/"$1 "/srv/released/"$2 /srv/bare/root/`
	h.sh(bare, debOf(oldest), debOf(middle))
	const inside = `cd /srv/bare; for deb in "$1" "$2"; do chroot . bash -c "dpkg -i /root/$deb"; done
		chroot . dpkg --remove egress-hostagent; chroot . dpkg --purge egress-hostagent; chroot . dpkg --audit`
	const outside = `cd /srv/bare/root; for deb in $1 $2; do dpkg --root=/srv/bare -i $deb; done
		dpkg --root=/srv/bare --remove egress-hostagent; dpkg --root=/srv/bare --purge egress-hostagent; dpkg --root=/srv/bare --audit`
	for name, script := range map[string]string{"chroot": inside, "dpkg --root": outside} {
		if out := h.sh(`{ `+script+`; } 2>&1`, debOf(oldest), debOf(middle)); strings.Contains(out, "egress-hostagent: ") {
			h.Logf("%s: %s", name, out) // what a script had to say
		}
		if left := h.sh(`ls -d /srv/bare/var/lib/egress-hostagent /srv/bare/etc/egress-hostagent 2>/dev/null || true`); left != "" {
			h.Errorf("%s: after purge there is %s", name, left)
		}
	}
	h.sh(`umount /srv/bare /run/bare; rmdir /srv/bare /run/bare`)
}

// upgrades: whatever the unit was it is after an upgrade and a reinstallation;
// if it ran, the new version runs.
func upgrades(h *host) {
	h.install(oldest)
	if got := h.stands(); got != "disabled inactive" {
		h.Fatalf("after the first installation the unit is %s", got)
	}
	for _, c := range unitStates {
		h.sh(`systemctl unmask "$1"; systemctl disable --now "$1"; `+c.script, unit)
		for _, way := range []struct {
			name, version string
			options       []string
		}{{"upgrade", middle, nil}, {"reinstallation", middle, []string{"--reinstall"}}, {"downgrade", oldest, nil}} {
			if way.options != nil && c.state != "enabled active" {
				continue // it differs from an upgrade in nothing that a state could change
			}
			pid := h.pid()
			h.install(way.version, way.options...)
			h.upgraded(way.name, c.state, way.version, pid)
		}
	}
	h.sh(`systemctl unmask "$1"`, unit)
}

// unitStates are all that an operator can make of the unit, and how.
var unitStates = []struct{ state, script string }{
	{"disabled inactive", ``},
	{"disabled active", `systemctl start "$1"`},
	{"enabled active", `systemctl enable --now "$1"`},
	{"enabled inactive", `systemctl enable "$1"; systemctl stop "$1"`},
	{"masked inactive", `systemctl disable --now "$1"; systemctl mask "$1"`},
}

// upgraded checks that the unit is in the state it was in; if it ran, as that
// process, another of that version runs.
func (h *host) upgraded(how, state, version, pid string) {
	h.Helper()
	if got := h.stands(); got != state {
		h.Errorf("%s: %s before, %s after", how, state, got)
	}
	if !strings.HasSuffix(state, " active") {
		return
	}
	h.agent("the version that runs is "+version, func(s status.Host) bool { return s.Version == version })
	if now := h.pid(); now == pid {
		h.Errorf("%s, %s: the process is the one of before", how, state)
	}
	h.has("NRestarts", "0")
}

// conffile: the configuration is the admin's. What nobody edited follows the
// package, without a question either way.
func conffile(h *host) {
	const sum = `sha256sum <"$1"`
	h.install(middle)
	h.sh(`systemctl enable --now "$1"`, unit) // and the agent writes nothing there
	shipped := h.sh(sum, configFile)
	h.install(newest)
	if now := h.sh(sum, configFile); now == shipped {
		h.Error("nobody edited config.toml, and the newer default is not there")
	}
	h.install(middle)
	if now := h.sh(sum, configFile); now != shipped {
		h.Error("nobody edited config.toml, and the default of before is not there")
	}
	h.sh(`echo '# edited' >>"$1"`, configFile)
	edited := h.sh(sum, configFile)
	h.install(oldest) // with the default that was edited
	h.install(middle)
	h.install(newest, "-o", "Dpkg::Options::=--force-confold")
	if now := h.sh(sum, configFile); now != edited {
		h.Error("the edited config.toml is another after an upgrade")
	}
	h.agent("the newest version runs", func(s status.Host) bool { return s.Version == newest })
	h.sh(`rm -f "$1".dpkg-*`, configFile)
}

// downgrade: what the newer version remembers the older one reads: here a spec
// that has been broken since, of which only the agent's state has the last good
// form. And across all of it not a file of the image tree changes.
func downgrade(h *host) {
	h.sh(`groupadd --system libvirt-qemu; qemu-img create -q -f qcow2 /srv/empty.qcow2 1G`)
	h.sh(settings+`systemctl restart egress-hostagent`, "test:///default")
	h.sh(spec, "one")
	h.runs("one")
	h.sh(`echo 'x = =' >/etc/egress-hostagent/proxies.d/one.toml`)
	h.agent("the edit is seen as broken", func(s status.Host) bool {
		return len(s.Proxies) == 1 && is(s.Proxies[0], status.Running) && !is(s.Proxies[0], status.Synced)
	})
	before := h.files(imageTree)
	h.install(oldest, "-o", "Dpkg::Options::=--force-confold")
	s := h.agent("the older version runs", func(s status.Host) bool { return s.Version == oldest && connected(s) })
	if len(s.Problems) != 0 {
		h.Errorf("the older version can not use the newer's state: %q", s.Problems)
	}
	h.agent("the last good spec is known", func(s status.Host) bool {
		return len(s.Proxies) == 1 && s.Proxies[0].Instance != "" && is(s.Proxies[0], status.Running)
	})
	h.sameFiles("downgrade", before, imageTree)
	h.sh(spec, "one")
	h.runs("one")
}

// imageTree is where the default configuration has it.
const imageTree = "/var/lib/libvirt/images/egress"

// files is what lies in a directory, with owner, mode and content.
func (h *host) files(dir string) string {
	h.Helper()
	return h.sh(`cd "$1"; find . -printf '%p %y %m %u %g %l\n' | sort; find . -type f -exec sha256sum {} + | sort -k 2`, dir)
}

func (h *host) sameFiles(what, before, dir string) {
	h.Helper()
	if now := h.files(dir); now != before {
		h.Errorf("%s changed what lies in %s: before\n%s\nafter\n%s", what, dir, before, now)
	}
}
