//go:build libvirtd

package link

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program"
)

// smallTree puts the image tree on a file system of its own.
func (l *lane) smallTree() {
	l.Helper()
	l.inside("sh", "-ec", `
		truncate --size 96M /var/lib/libvirt/small.img
		mkfs.ext4 -q -F /var/lib/libvirt/small.img
		mount -o loop /var/lib/libvirt/small.img "$1"
		rmdir "$1/lost+found"
		chown "$2":libvirt-qemu "$1"
		chmod 2710 "$1"`, "sh", l.place.Tree, kit.User)
	l.Cleanup(func() {
		l.clear() // nothing may use it
		l.inside("sh", "-ec", `umount "$1"; rm /var/lib/libvirt/small.img`, "sh", l.place.Tree)
	})
}

// TestCase070_AFullTreePausesAndGoesOn fills the tree by a guest that writes to
// its disk.
func TestCase070_AFullTreePausesAndGoesOn(t *testing.T) {
	l := beginLane(t, setting{resync: "1s"}, program.Fill, program.Idle)
	l.smallTree()
	l.configure(replacing("[limits]", "[limits]\ndisk_reserve = \"16MiB\""))
	l.start()
	l.wait("the tree is known", func(h status.Host) bool {
		c, ok := h.Condition(status.ImageTree)
		return ok && c.Status == status.True
	})
	l.inside("fallocate", "--length", "40M", l.place.Tree+"/ballast")
	l.write("steady", specOf(program.Idle, ""))
	l.running("steady")
	l.write("writer", specOf(program.Fill, "disk = \"1GiB\"\n"))
	p := l.waitProxy("writer", "is paused for want of room", func(p status.Proxy) bool {
		return is(p, status.Running, status.False, "PausedNoSpace")
	})
	c, _ := p.Condition(status.Running)
	l.Logf("paused: %s; next: %s", c.Message, p.Next)
	if !strings.Contains(c.Message, "MiB free") || p.IsReady() {
		t.Errorf("%+v", p)
	}
	before, from := l.picture("egress-writer", "egress-steady"), l.agent.LogSize()
	text, _ := l.agent.CLI("status")
	l.Logf("status says:\n%s", text)
	l.await(patience, "libvirt says why", func() bool {
		return strings.Contains(l.virsh("domstate --reason egress-writer"), "I/O error")
	})
	l.noActions(from, "while there is no room")

	l.inside("rm", l.place.Tree+"/ballast")
	l.waitProxy("writer", "runs again", func(p status.Proxy) bool { return is(p, status.Running, status.True, "") })
	for _, did := range l.actions(from) {
		if did != "resume writer" {
			t.Errorf("the agent did %q", did)
		}
	}
	l.same(before, "after there was room again", "egress-writer", "egress-steady")
	l.end()
}

// TestI16_ATreeThatIsNotMounted starts the agent while the tree's mount point
// is empty.
func TestI16_ATreeThatIsNotMounted(t *testing.T) {
	l := beginLane(t, setting{resync: "1s"}, program.Idle)
	l.start()
	l.write("p", specOf(program.Idle, ""))
	l.write("q", specOf(program.Idle, ""))
	l.running("p", "q")
	l.end()
	l.inside("sh", "-ec", `mount -t tmpfs -o mode=2710 none "$1"; chown "$2":libvirt-qemu "$1"; chmod 2710 "$1"`, "sh", l.place.Tree, kit.User)
	hidden := true
	t.Cleanup(func() {
		if hidden {
			l.inside("umount", l.place.Tree)
		}
	})
	l.virsh("destroy egress-q")
	before, from := l.picture("egress-p"), l.agent.LogSize()
	l.start()
	l.write("new", specOf(program.Idle, ""))
	l.wait("the tree is missed", func(h status.Host) bool {
		c, ok := h.Condition(status.ImageTree)
		return ok && c.Status == status.False && c.Reason == "ImageTreeMissing" && connected(h)
	})
	for _, name := range []string{"p", "q", "new"} {
		l.waitProxy(name, "is blocked", func(p status.Proxy) bool { return is(p, status.Synced, status.Unknown, "ImageTreeMissing") })
	}
	l.remove("p")
	text, _ := l.agent.CLI("status")
	l.Logf("status says:\n%s", text)
	l.noActions(from, "without the tree")
	l.same(before, "without the tree", "egress-p")
	l.write("p", specOf(program.Idle, ""))

	l.inside("umount", l.place.Tree)
	hidden = false
	l.running("p", "q", "new")
	l.same(before, "with the tree back", "egress-p")
	l.end()
}
