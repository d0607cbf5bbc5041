// Package virt owns everything that speaks libvirt: connections and their
// re-establishment, the event loop, handles, error classes. It is the only
// package of the module that needs cgo, and hands out plain values of the
// observe package.
//
// It knows nothing of proxies or ownership; whether a call should be made is
// the caller's decision.
//
// No libvirt call can be cancelled. So each runs on a goroutine of its own that
// holds one of a few slots until libvirt returns, while its caller waits no
// longer than its context. A connection is closed only after its last call
// came back, and left open when that never happens.
package virt
