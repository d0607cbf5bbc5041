// Package image owns the image tree: base images (fetched, verified and
// published under their digest), overlays, seeds, records and console logs, and
// the marker that says whose tree it is. It is the only package that runs
// qemu-img.
//
// Every file appears under its final name whole or not at all; a call that was
// cut short at any point is repeated without clean-up by hand. Every change
// starts with the marker: without it nothing is created, replaced or removed.
// All access goes beneath an open handle of the root, so that a link planted in
// the tree leads nowhere.
//
// What a domain refers to, what is to be created or removed and when, is decided
// elsewhere; so is how a failure is retried. At most one changing call per
// proxy name may run at a time, where Collect is one for each name of its strays;
// EnsureBase may be called by everybody at once.
package image
