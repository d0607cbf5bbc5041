// Package plan owns every decision about what to do next: Make takes what is
// wanted, what is seen and what is remembered, and gives the actions to take,
// each with its reason, and the status to show. It is pure: no clock, no file,
// no network, no libvirt, no log; the same input gives the same result.
//
// It does not run actions (apply) and does not observe (observe, image, virt).
package plan
