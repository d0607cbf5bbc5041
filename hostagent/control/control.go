// Package control owns the local API: the agent's side that answers on a unix
// socket, and the client that the command line uses to ask it.
//
// The API is HTTP/1.1 with JSON bodies, for reading only:
//
//	GET /v1/status        the whole host, a status.Host
//	GET /v1/proxies/NAME  one proxy, a status.Proxy
//
// Who may ask is decided by the socket's mode and group. What is answered is
// the Backend's business; how it is shown to people the command's.
package control

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Backend is what the API speaks for. Its methods are called from several
// goroutines at once and must not block.
type Backend interface {
	Status() status.Host
}

// Errors of a Client that callers tell apart with errors.Is.
var (
	ErrNotRunning = errors.New("the agent is not running")
	ErrNotFound   = errors.New("not found")
)

// failure is the body of every answer that is not 200.
type failure struct {
	Error string `json:"error"`
}

const (
	pathStatus  = "/v1/status"
	pathProxies = "/v1/proxies/"
)
