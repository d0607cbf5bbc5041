package seed

import (
	_ "embed"
)

//go:embed guest-agent.sh
var script string

// Script returns the vendor script that installs the QEMU guest agent in a
// guest and starts it: POSIX sh in ASCII, which always exits 0. It is a script
// of its own, fit to run by hand in a guest.
func Script() []byte { return []byte(script) }
