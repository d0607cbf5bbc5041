package virt

import "fmt"

// minVersion is the oldest libvirt, as library here and as daemon there, that
// has all the agent uses. Everything newer has it, too; whatever comes to be
// used that is younger is asked for by version first, since a library without
// a function answers with a number that means many things (INTERNAL_ERROR).
const minVersion = 8_000_000

// checkVersion tells whether a libvirt of that version can be used. part says
// which: the library of this process or the daemon.
func checkVersion(part string, v uint32) error {
	if v >= minVersion {
		return nil
	}
	return fmt.Errorf("the libvirt %s is version %s; the agent needs %s or later", part, version(v), version(minVersion))
}

// version reads libvirt's form of one: major*1,000,000 + minor*1,000 + release.
func version(v uint32) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1_000%1_000, v%1_000)
}
