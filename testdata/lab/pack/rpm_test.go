//go:build package

package pack

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestRpm takes the rpm through its life by rpm itself, on a machine of its own
// that has the deb never seen. Of what it depends on Debian has all, under names
// that its rpm does not know: libvirt.so.0, qemu-img, systemd and libc. So rpm is
// told not to look.
func TestRpm(t *testing.T) {
	t.Parallel()
	h := machine(t, releases(t, oldest, middle, newest))
	h.live(t, []part{
		{"NoSystemd", rpmWithoutSystemd},
		{"Install", rpmInstalls},
		{"I10_Case165_Upgrade", rpmUpgrades},
		{"Case167_Conffile", rpmConffile},
		{"Case168_Erase", rpmErases},
	})
}

// rpm runs it on a version's package; $2 and more are options.
const rpm = `rpm "${@:2}" --nodeps "/srv/released/"$1`

func (h *host) rpm(version string, options ...string) {
	h.Helper()
	if out := h.sh(rpm+` 2>&1`, append([]string{rpmOf(version)}, options...)...); strings.Contains(out, "scriptlet failed") {
		h.Errorf("rpm %s: %s", options, out)
	}
}

// rpmWithoutSystemd: in a root where no systemd runs.
func rpmWithoutSystemd(h *host) {
	h.sh(`mkdir /run/bare /srv/bare; mount -t tmpfs none /run/bare; mkdir /run/bare/{up,work}
		mount -t overlay none -o lowerdir=/,upperdir=/run/bare/up,workdir=/run/bare/work /srv/bare`)
	const life = `for rpm in "$1" "$2"; do rpm --root /srv/bare --nodeps -U "/srv/released/"$rpm; done
		rpm --root /srv/bare -e egress-hostagent; umount /srv/bare /run/bare; rmdir /srv/bare /run/bare`
	if out := h.sh(`{ `+life+`; } 2>&1`, rpmOf(oldest), rpmOf(middle)); strings.Contains(out, "failed") {
		h.Errorf("rpm --root: %s", out)
	}
}

// rpmInstalls: neither enabled nor started, all as the package has it.
func rpmInstalls(h *host) {
	h.sh(`groupadd --system qemu`) // as libvirt has it where there are rpms
	h.rpm(oldest, "-i")
	if got := h.stands(); got != "disabled inactive" {
		h.Errorf("after the installation the unit is %s", got)
	}
	h.verified()
	h.sh(`systemctl enable --now "$1"`, unit)
	h.agent("the agent waits for libvirt", func(s status.Host) bool { return !connected(s) && s.Version == oldest })
	h.sh(`systemctl stop "$1"; systemctl disable "$1"`, unit)
	h.verified()
	if got := h.sh(`stat -c '%A %U %G' "$1"`, imageTree); got != "drwx--s--- egress-hostagent qemu" {
		h.Errorf("the image tree is %s", got)
	}
}

// verified has rpm compare what is there with the package.
func (h *host) verified() {
	h.Helper()
	if out, err := h.try(`rpm -V --nodeps egress-hostagent`); err != nil || out != "" {
		h.Errorf("rpm -V: %v: %s", err, out)
	}
}

// rpmUpgrades: as upgrades does with the deb.
func rpmUpgrades(h *host) {
	for _, c := range unitStates {
		h.sh(`systemctl unmask "$1"; systemctl disable --now "$1"; `+c.script, unit)
		for _, way := range []struct {
			version string
			options []string
		}{
			{middle, []string{"-U"}}, {oldest, []string{"-U", "--oldpackage"}},
		} {
			pid := h.pid()
			h.rpm(way.version, way.options...)
			h.upgraded(strings.Join(way.options, " "), c.state, way.version, pid)
		}
	}
	h.sh(`systemctl unmask "$1"`, unit)
}

// rpmConffile: an edited configuration stays, beside a newer default.
func rpmConffile(h *host) {
	h.sh(`systemctl enable --now "$1"`, unit)
	h.rpm(newest, "-U")
	h.rpm(middle, "-U", "--oldpackage")
	h.verified()
	h.sh(`echo '# edited' >>"$1"`, configFile)
	h.rpm(newest, "-U")
	if got := h.sh(`tail -n 1 "$1"; ls "$1".*`, configFile); got != "# edited\n"+configFile+".rpmnew" {
		h.Errorf("after the upgrade the edited configuration ends in, and beside it is, %q", got)
	}
	h.agent("the newest version runs", func(s status.Host) bool { return s.Version == newest })
}

// rpmErases: the agent's own goes, state and images stay, and what was edited.
func rpmErases(h *host) {
	h.sh(fillTree, imageTree)
	tree := h.files(imageTree)
	h.sh(`rpm -e egress-hostagent`)
	if left := h.sh(`pgrep --uid egress-hostagent --list-full || true`); left != "" {
		h.Errorf("these still run: %s", left)
	}
	h.sameFiles("rpm -e", tree, imageTree)
	if got := h.sh(`tail -n 1 "$1.rpmsave"; ls -d "$2"; ls -d "$1" /etc/systemd/system/*/egress-hostagent.service 2>/dev/null || true`,
		configFile, stateDir); got != "# edited\n"+stateDir {
		h.Errorf("after rpm -e there is %q", got)
	}
	h.rpm(middle, "-i")
	if got := h.stands(); got != "disabled inactive" {
		h.Errorf("after another installation the unit is %s", got)
	}
	h.sameFiles("another installation", tree, imageTree)
	h.sh(`rpm -e egress-hostagent`)
}
