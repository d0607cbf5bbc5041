// Package control owns the local API: the agent's side that answers on a unix
// socket, and the client that the command line uses to talk to it.
//
// The API is HTTP/1.1 with JSON bodies:
//
//	GET  /v1/status        the whole host, a status.Host
//	GET  /v1/proxies/NAME  one proxy, a status.Proxy
//	POST /v1/orders        an order.Order; answered {"text": "what happens now"}
//
// Who may ask is decided by the socket's mode and group. Who may order is
// decided here, by who the kernel says made the connection. What is answered
// and whether an order is obeyed is the Backend's business; how it is shown to
// people the command's.
package control

import (
	"context"
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Backend is what the API speaks for. Its methods are called from several
// goroutines at once.
type Backend interface {
	// Status tells how the host is. It must not block.
	Status() status.Host
	// Obey carries out a checked order, or takes it on so that it outlives the
	// agent, and says in words what happens now. It returns soon after ctx
	// ends, with an error that is ctx.Err(). Any other error is a refusal, and
	// its text goes to whoever ordered.
	Obey(ctx context.Context, o order.Order) (text string, err error)
}

// Errors of a Client that callers tell apart with errors.Is.
var (
	ErrNotRunning = errors.New("the agent is not running")
	ErrNotFound   = errors.New("not found")
	ErrRefused    = errors.New("the agent refuses")
	ErrNotAllowed = errors.New("not allowed")
)

// obeyed is the body of the answer to an order that was obeyed.
type obeyed struct {
	Text string `json:"text"`
}

// failure is the body of every answer that is not 200.
type failure struct {
	Error string `json:"error"`
}

const (
	pathStatus  = "/v1/status"
	pathProxies = "/v1/proxies/"
	pathOrders  = "/v1/orders"

	jsonType = "application/json"
)
