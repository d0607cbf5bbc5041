//go:build package

package pack

import "testing"

// TestHost takes one machine through a life with libvirt, in the order of an
// operator's: each part stands on those before it.
func TestHost(t *testing.T) {
	t.Parallel()
	files := hostFiles(t)
	h := &host{T: t, box: holdBox(t, "libvirt", files)}
	h.sh(`cp "$1"/* /srv/; chmod 0644 /srv/*`, files)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := h.try(`journalctl --no-pager --lines=300 --output=short-precise`)
			t.Logf("the machine's journal:\n%s", log)
		}
	})
	for _, part := range []struct {
		name string
		run  func(*host)
	}{
		{"LibvirtComesLater", libvirtComesLater},
		{"FilesAndSandbox", filesAndSandbox},
		{"PolkitRuleAlone", polkitRuleAlone},
		{"I10_Case163_AgentComesAndGoes", agentComesAndGoes},
		{"I10_Case165_Case168_PackageComesAndGoes", packageComesAndGoes},
		{"I08_Case087_Case109_Reboot", reboots},
		{"Case094_SavedGuests", savedGuests},
		{"I16_VolumeNotMounted", volumeNotMounted},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(h.in(t)) }) {
			t.Fatalf("%s failed: what comes after it stands on it", part.name)
		}
	}
}
