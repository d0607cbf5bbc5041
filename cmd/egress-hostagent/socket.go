package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/control"
)

// askAgent calls ask with the control socket of the agent. A configuration that
// is wrong does not stand between an operator and an agent that goes on with the
// one before: then the socket's usual place is tried, and the problem told on
// warn; it is the error when no agent listens there.
func askAgent(o *options, warn io.Writer, ask func(socket string) error) error {
	cfg, problem := loadConfig(o)
	if problem == nil {
		return ask(cfg.Control.Socket)
	}
	socket := config.Default().Control.Socket
	err := ask(socket)
	if errors.Is(err, control.ErrNotRunning) {
		return problem
	}
	fmt.Fprintf(warn, "egress-hostagent: %v; the agent at %s was asked\n", problem, socket)
	return err
}
