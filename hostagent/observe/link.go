package observe

// LinkStats is how the link to the hypervisor is doing, for metrics and status.
type LinkStats struct {
	Connected bool
	Open      int    // connections not yet closed, those that wait for a stuck call included
	Stuck     int    // calls nobody waits for any more and that have not returned; each holds a slot
	Connects  uint64 // times the link came up
	Leaked    uint64 // connections that still had references when they were closed: a bug, each keeps a socket
	Replaced  uint64 // connections replaced because none of their calls came back
	Handles   int64  // libvirt objects held and not yet freed
	// Degraded says, for people, which calls do not work although the link is
	// up; empty when all do.
	Degraded string
}
