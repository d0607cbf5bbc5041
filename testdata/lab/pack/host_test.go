//go:build package

package pack

import "testing"

// TestHost takes one machine through a life with libvirt, in the order of an
// operator's: each part stands on those before it.
func TestHost(t *testing.T) {
	t.Parallel()
	files, released := hostFiles(t), releases(t, oldest, middle)
	h := &host{T: t, box: holdBox(t, "libvirt", files, released)}
	h.sh(`cp "$1"/* /srv/; for version in "${@:3}"; do cp "$2"/egress-hostagent_"$version"-1_*.deb "/srv/$version.deb"; done
		chmod 0644 /srv/*`, files, released, oldest, middle)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := h.try(`journalctl --no-pager --lines=300 --output=short-precise`)
			t.Logf("the machine's journal:\n%s", log)
		}
	})
	h.live(t, []part{
		{"LibvirtComesLater", libvirtComesLater},
		{"FilesAndSandbox", filesAndSandbox},
		{"PolkitRuleAlone", polkitRuleAlone},
		{"I10_Case163_AgentComesAndGoes", agentComesAndGoes},
		{"I10_Case165_Case168_PackageComesAndGoes", packageComesAndGoes},
		{"I08_Case087_Case109_Reboot", reboots},
		{"Case094_SavedGuests", savedGuests},
		{"I16_VolumeNotMounted", volumeNotMounted},
	})
}
