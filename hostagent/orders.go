package hostagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
)

// ErrStopping is the error of an order that the agent ended before.
var ErrStopping = errors.New("the agent is stopping")

// ErrRewire ends Run when the agent has to be made anew from what is on disk:
// it has taken on another host id.
var ErrRewire = errors.New("the agent has taken on another host id and starts anew")

// Obey implements the control API's backend: it hands an order to the planner
// and waits until what it changed is on disk.
func (a *Agent) Obey(ctx context.Context, o order.Order) (string, error) {
	if o.Verb == order.ResetManifest { // no proxy is concerned, and no planning
		return a.resetManifest()
	}
	id := a.orders.Add(1)
	reply := make(chan Answered, 1)
	a.waiting.Store(id, reply)
	defer a.waiting.Delete(id)
	select {
	case a.events <- Ordered{ID: id, Order: o}:
	case <-ctx.Done():
		return "", fmt.Errorf("the agent did not take the order: %w", context.Cause(ctx))
	case <-a.ended:
		return "", ErrStopping
	}
	select {
	case r := <-reply:
		return r.Text, r.Err
	case <-ctx.Done():
		return "", fmt.Errorf("the agent took the order but has not confirmed it: see status: %w", context.Cause(ctx))
	case <-a.ended:
		select {
		case r := <-reply: // the order may be what ended it
			return r.Text, r.Err
		default:
			return "", ErrStopping
		}
	}
}

// answered hands a reply to who waits for it, if still somebody does.
func (a *Agent) answered(r Answered) {
	if ch, ok := a.waiting.Load(r.ID); ok {
		ch.(chan Answered) <- r
	}
}
