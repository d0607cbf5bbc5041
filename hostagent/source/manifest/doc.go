// Package manifest owns the second source of desired state: one JSON document
// with all proxies of this host, pulled over HTTPS. It decides whether a
// document may be believed (decode, ratchet), keeps the last one that was over
// restarts, and paces the requests.
//
// A document is taken whole or not at all; whatever is wrong, what was last
// taken stands and nothing is deleted (invariant 2). How bytes come from a
// server is upstream's business, what a key of a proxy means is spec's, and
// what follows from a name that is gone is the plan package's.
package manifest
