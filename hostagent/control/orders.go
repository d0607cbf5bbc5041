package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
)

const (
	maxOrder     = 4 << 10          // bytes of a body; the longest order takes some 100
	orderTimeout = 10 * time.Second // for the backend, which waits for a write of its state
)

// order answers one order: its form first, then whether this peer may order,
// then what the backend makes of it.
func (s *server) order(w http.ResponseWriter, r *http.Request) {
	o, code, err := readOrder(w, r)
	if err != nil {
		answer(w, s.log, code, failure{err.Error()})
		return
	}
	who := peerFrom(r.Context())
	if who.err != nil {
		s.log.Warn("order not allowed", "order", short(o), "by", "unknown", "result", who.err)
		answer(w, s.log, http.StatusForbidden, failure{fmt.Sprintf("who orders can not be told: %v: give the order as root, on this host's own socket", who.err)})
		return
	}
	o.By = s.names.name(r.Context(), who.uid)
	if !s.access.allows(who.uid, s.self) {
		s.log.Warn("order not allowed", "order", short(o), "by", o.By, "uid", who.uid)
		answer(w, s.log, http.StatusForbidden, failure{stranger(o.By, who.uid)})
		return
	}
	s.obey(w, r, o)
}

// stranger says why a user may not order, and what to do about it.
func stranger(name string, uid uint32) string {
	who := fmt.Sprintf("uid %d", uid)
	if name != who {
		who = fmt.Sprintf("user %.200q (%s)", name, who)
	}
	return who + " may look but not order: ask root, or add the user to admins in [control] of the config and reload the agent"
}

// readOrder gives the order of a request, or the code that it is answered.
func readOrder(w http.ResponseWriter, r *http.Request) (order.Order, int, error) {
	var o order.Order
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != jsonType {
		return o, http.StatusUnsupportedMediaType, fmt.Errorf("an order has Content-Type %s, not %.100q", jsonType, r.Header.Get("Content-Type"))
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
	d.DisallowUnknownFields()
	err := d.Decode(&o)
	if err == nil {
		if _, more := d.Token(); more == nil {
			err = errors.New("more follows after it")
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return o, http.StatusRequestEntityTooLarge, fmt.Errorf("an order has at most %d bytes", maxOrder)
	case err != nil:
		return o, http.StatusBadRequest, fmt.Errorf("decode the order: %v", err)
	}
	if err := o.Check(); err != nil {
		return o, http.StatusBadRequest, err
	}
	return o, 0, nil
}

// obey hands the order to the backend and answers what that says.
func (s *server) obey(w http.ResponseWriter, r *http.Request, o order.Order) {
	// The server's own time-out is that of an answer without a wait.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(orderTimeout + writeTimeout)); err != nil {
		answer(w, s.log, http.StatusInternalServerError, failure{fmt.Sprintf("give the order time: %v", err)})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	text, err := s.backend.Obey(ctx, o)
	log, ended := s.log.With("order", short(o), "by", o.By), ctx.Err()
	switch {
	case err == nil:
		log.Info("order obeyed", "result", text)
		answer(w, s.log, http.StatusOK, obeyed{text})
	case ended == nil || !errors.Is(err, ended):
		log.Info("order refused", "result", err)
		answer(w, s.log, http.StatusConflict, failure{err.Error()})
	case errors.Is(ended, context.DeadlineExceeded):
		log.Info("order timed out", "result", err)
		answer(w, s.log, http.StatusGatewayTimeout, failure{fmt.Sprintf("not confirmed within %s; it may still be obeyed: see status before you repeat it", orderTimeout)})
	default:
		log.Info("order cut short", "result", err)
		answer(w, s.log, http.StatusServiceUnavailable, failure{"the agent is stopping; the order may be lost: see status when it runs again"})
	}
}

// short is the order for the log: what was typed, up to a length that every
// order that names something keeps within.
func short(o order.Order) string { return fmt.Sprintf("%.100s", o) }
