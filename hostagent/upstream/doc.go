// Package upstream owns the agent's HTTP clients: which servers they believe,
// what credentials they show and to whom, where they let themselves be
// redirected, how much they read and how long they wait. Client fetches images
// from anywhere and tries again by itself; Origin talks to the one server that
// is configured for manifest or report, and leaves trying again to its caller,
// to whom Backoff gives the waits. Callers see complete bodies or errors that
// hold no query string and no credential.
//
// It leaves to others what a body means and whether its digest is right.
package upstream
