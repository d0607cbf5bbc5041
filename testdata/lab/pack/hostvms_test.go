//go:build package

package pack

import (
	"encoding/json"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// vm is what must stay of a proxy's VM.
type vm struct {
	Name string
	lasting
	process
	counts
}

// lasting outlives the machine's reboot: all that tells cloud-init, or an
// admin, that this is the same guest.
type lasting struct {
	UUID      string
	XML       string // digest of the definition's file
	Defined   string // when that was written
	Autostart bool
	Overlay   string // path, which has the instance id, and inode
	Seed      string // digest
	Record    string // likewise
}

// process is QEMU's. Begun, in ticks since the kernel's start, tells two with
// the same number apart.
type process struct{ PID, Begun string }

// counts are over the VM's life.
type counts struct {
	Starts int // of QEMU
	Boots  int // of the guest: a start from a saved state is none
	Offs   int // of the guest, by its power button; like Boots, since the agent last started it
}

// describe prints the VMs of the proxies given as JSON, one after the other. It
// reads libvirt's files, and so asks nobody.
const describe = `
sum() { sha256sum "$1" 2>/dev/null | cut -c 1-16; }
for n; do
	d=egress-$n xml=/etc/libvirt/qemu/egress-$n.xml log=/var/log/libvirt/qemu/egress-$n.log
	uuid=$(sed -n 's,.*<uuid>\(.*\)</uuid>.*,\1,p' "$xml")
	disk=$(sed -n "s,.*<source file='\(.*/disk/.*\)'.*,\1,p" "$xml" | head -n 1)
	stem=$(basename "$disk" .qcow2) tree=$(dirname "$(dirname "$disk")")
	pid=$(cat "/run/libvirt/qemu/$d.pid" 2>/dev/null || true)
	[ -n "$pid" ] && [ -e "/proc/$pid" ] || pid=
	printf '{"Name":"%s","UUID":"%s","XML":"%s","Defined":"%s","Autostart":%s,"Overlay":"%s %s","Seed":"%s","Record":"%s",' \
		"$n" "$uuid" "$(sum "$xml")" "$(stat -c %.Y "$xml")" \
		"$([ -e "/etc/libvirt/qemu/autostart/$d.xml" ] && echo true || echo false)" \
		"$disk" "$(stat -c %i "$disk" 2>/dev/null || true)" "$(sum "$tree/seed/$stem.iso" || true)" "$(sum "$tree/disk/$stem.json" || true)"
	printf '"PID":"%s","Begun":"%s","Starts":%d,"Boots":%d,"Offs":%d}\n' \
		"$pid" "${pid:+$(cut -d ' ' -f 22 "/proc/$pid/stat")}" "$(grep -c ': starting up' "$log" || true)" \
		"$(grep -c 'program: button' "$tree/console/$n.log" 2>/dev/null || true)" \
		"$(grep -c 'program: power off' "$tree/console/$n.log" 2>/dev/null || true)"
done`

// vms looks at all proxies' VMs.
func (h *host) vms() (all []vm) {
	h.Helper()
	d := json.NewDecoder(strings.NewReader(h.sh(describe, proxies...)))
	for d.More() {
		var v vm
		if err := d.Decode(&v); err != nil {
			h.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// unchanged checks that the VMs are what they were, down to QEMU's process.
func (h *host) unchanged(want []vm, after string) {
	h.Helper()
	h.same(want, after, func(v vm) vm { return v })
}

// same compares the VMs, as of shows them, with those of before.
func (h *host) same(want []vm, after string, of func(vm) vm) {
	h.Helper()
	show := func(in []vm) (out []vm) {
		for _, v := range in {
			out = append(out, of(v))
		}
		return out
	}
	if diff := cmp.Diff(show(want), show(h.vms()), cmp.AllowUnexported(vm{}, lasting{}, process{}, counts{})); diff != "" {
		h.Errorf("VMs after %s (-before +after):\n%s", after, diff)
	}
}

// started checks that each VM is the same guest as before, that QEMU was
// started once since, and what the guest itself did.
func (h *host) started(before []vm, after string, guest func(*counts)) {
	h.Helper()
	var want []vm
	for _, v := range before {
		v.Starts++
		guest(&v.counts)
		want = append(want, v)
	}
	h.same(want, after, butProcess)
}

func butProcess(v vm) vm {
	v.process = process{}
	return v
}
