//go:build package

package pack

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// guestsFirst makes libvirt-guests do its work: with Debian 12's units alone
// libvirtd stops at the same time, and libvirt-guests finds nobody to ask.
const guestsFirst = `mkdir -p /etc/systemd/system/libvirt-guests.service.d
	printf '[Unit]\nAfter=libvirtd.service\n' >/etc/systemd/system/libvirt-guests.service.d/order.conf
	systemctl daemon-reload
	printf '[Login]\nInhibitDelayMaxSec=1\n' >>/etc/systemd/logind.conf # libvirtd holds the reboot up as long as it may
	systemctl restart systemd-logind`

// Message ids of systemd (systemd.journal-fields(7), sd-messages.h).
const (
	unitStopping = "de5b426a63be47a7b6ac3eaac82e2f6f"
	unitStopped  = "9d1aaa27d60140bd96365438aad20286"
)

// lastTime is when systemd said that of a unit in the boot before this one, in
// microseconds since that boot.
func (h *host) lastTime(message, unit string) int {
	h.Helper()
	const find = `journalctl --boot=-1 --output=json --output-fields=__MONOTONIC_TIMESTAMP "MESSAGE_ID=$1" "UNIT=$2" |
		tail -n 1 | sed -n 's/.*"__MONOTONIC_TIMESTAMP":"\([0-9]*\)".*/\1/p'`
	at, err := strconv.Atoi(h.sh(find, message, unit))
	if err != nil {
		h.Fatalf("the last boot's journal on %s, message %s: %v", unit, message, err)
	}
	return at
}

// reboots: libvirt-guests shuts the guests down, libvirt starts them, the agent
// neither hinders the one nor repeats the other.
func reboots(h *host) {
	h.sh(guestsFirst)
	before, known := h.vms(), h.running()
	h.reboot()
	after := h.running()
	if stopped, guests := h.lastTime(unitStopped, unit), h.lastTime(unitStopping, "libvirt-guests.service"); stopped > guests {
		h.Errorf("the agent stopped %s after libvirt-guests began to shut guests down", time.Duration(stopped-guests)*time.Microsecond)
	}
	h.started(before, "the reboot", func(c *counts) { c.Boots, c.Offs = c.Boots+1, c.Offs+1 })
	// Libvirt started them: the agent has not.
	if diff := cmp.Diff(livesOf(known), livesOf(after)); diff != "" {
		h.Errorf("proxies (-before the reboot +after):\n%s", diff)
	}
}

// savedGuests: libvirt-guests saves the guests and resumes them at the next
// boot, while libvirt starts them too. No saved state is thrown away, the
// agent's own start included.
func savedGuests(h *host) {
	h.sh(`printf 'ON_SHUTDOWN=suspend\nON_BOOT=start\n' >>/etc/default/libvirt-guests`)
	before := h.vms()
	h.reboot()
	starts := h.running().Proxies[0].Starts
	h.started(before, "a reboot with saved guests", func(*counts) {})
	before = h.vms()
	h.sh(`virsh -q managedsave egress-a`)
	h.agent("the agent starts what an admin saved", func(s status.Host) bool { return allRun(s) && s.Proxies[0].Starts == starts+1 })
	before[0].counts = counts{Starts: before[0].Starts + 1} // and no boot
	h.same(before, "the agent's start of a saved guest", butProcess)
	if left := h.sh(`ls /var/lib/libvirt/qemu/save`); left != "" {
		h.Errorf("states still saved: %s", left)
	}
}

// volumeNotMounted: the machine comes up without the image tree's volume, after
// its guests lost their power. Once it is mounted the agent starts them, one
// after the other.
func volumeNotMounted(h *host) {
	h.sh(`rm -r /etc/systemd/system/libvirt-guests.service.d; sed -i '/^ON_/d' /etc/default/libvirt-guests
		systemctl daemon-reload; systemctl stop "$1"
		mkdir /srv/volume; mv "$2" /srv/volume/; mkdir "$2"; mount --bind "/srv/volume/$(basename "$2")" "$2"
		systemctl start "$1"`, unit, tree)
	h.running()
	before := h.vms()
	h.reboot()
	blocked := h.agent("the missing tree is shown", func(s status.Host) bool {
		c, ok := s.Condition(status.ImageTree)
		return connected(s) && ok && c.Status == status.False && c.Reason == "ImageTreeMissing"
	})
	// Long enough for whoever would act.
	h.agent("the agent has looked again", func(s status.Host) bool {
		return s.Sources[0].LastRead.Sub(blocked.Sources[0].LastRead) > 10*time.Second
	})
	if left := h.sh(`ls -A "$1"`, tree); left != "" {
		h.Errorf("on the missing volume's mount point there is now %s", left)
	}
	if active := h.property("ActiveState"); active != "active" || h.property("NRestarts") != "0" {
		h.Errorf("the unit is %s", active)
	}
	untouched := func(v vm) vm {
		return vm{Name: v.Name, lasting: lasting{UUID: v.UUID, XML: v.XML, Defined: v.Defined, Autostart: v.Autostart}}
	}
	h.same(before, "a start without the volume", untouched)
	h.sh(`mount --bind "/srv/volume/$(basename "$1")" "$1"`, tree)
	h.running()
	h.started(before, "a start whose volume came late", func(c *counts) { c.Boots, c.Offs = 1, 0 })
	staggered(h)
}

// staggered checks the pauses between the starts of the VMs.
func staggered(h *host) {
	var begun []int
	for _, line := range strings.Fields(h.sh(`for n; do cut -d ' ' -f 22 "/proc/$(cat "/run/libvirt/qemu/egress-$n.pid")/stat"; done | sort -n`, proxies...)) {
		ticks, err := strconv.Atoi(line)
		if err != nil {
			h.Fatal(err)
		}
		begun = append(begun, ticks)
	}
	for i := 1; i < len(begun); i++ {
		// In hundredths of a second. A slow machine may start one late, and the next in its time.
		if pause := begun[i] - begun[i-1]; pause < 100*startInterval/2 {
			h.Errorf("a VM started %d ms after the one before", 10*pause)
		}
	}
}
