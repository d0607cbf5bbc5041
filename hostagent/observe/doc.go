// Package observe owns observed state as plain values: domains and their power
// and claims, addresses and which of them count, the image tree's content. It
// holds the vocabulary that the hypervisor packages speak (RawDomain, Claim,
// Event, Error classes) and the pure reading of it.
//
// It decides nothing about what to do; that is the plan package's.
package observe
