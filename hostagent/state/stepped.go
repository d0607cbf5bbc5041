package state

import "os"

// OpenStepped is Open, and has step called after each step of each change from
// then on: a file made, written, renamed or removed, its directory synced. step
// may end the process there: that is what tests of crashes need, and nothing
// else uses it. Its error ends the change as a failure of that step.
func OpenStepped(dir, hostID string, step func(step string) error) (*Store, Content, error) {
	return open(reader{dir, hostID, os.Geteuid(), maxFile}, step)
}
