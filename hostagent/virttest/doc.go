// Package virttest owns the in-memory hypervisor for tests: a Fake that keeps
// state, emits events, takes injected faults and prints itself, and Conform,
// the suite that holds it to what the real link to libvirt does. It needs no
// cgo and starts no goroutine.
//
// It leaves libvirt itself to the virt package, whose tests run Conform too.
package virttest
