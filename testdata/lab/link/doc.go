// Package link proves the agent's link to libvirt on a real, private libvirtd:
// that it is restored after a loss, bounded while libvirt hangs, leaves nothing
// behind, and that the agent does what it should whatever an admin does with
// virsh. Its tests are behind the tag libvirtd and need root; "make
// test-libvirtd" runs them.
//
// The guests have no operating system: what a guest does is the guest lane's.
// Waits are scaled by the agent's configuration: libvirt is given up after
// about 4 s without an answer, and the full look that repairs lost events comes
// every 10 minutes, so that only events and new connections can explain what
// the tests see. SOAK=1 in the environment makes counts and waits long.
package link
