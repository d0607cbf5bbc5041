// Package upstream owns the agent's HTTP client: which servers it believes,
// where it lets itself be redirected, how much it reads, how long it waits and
// when it tries again. Callers see complete bodies or errors that hold no
// query string and no credential.
//
// It leaves to others what a body means and whether its digest is right.
package upstream
