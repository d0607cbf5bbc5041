package spec

// Rate is an amount of traffic in bytes per second. libvirt counts in whole
// thousands of them.
type Rate int64
