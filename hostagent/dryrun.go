package hostagent

import (
	"context"
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// DryRun looks at everything once, the same way Run does, and gives what the
// planner would do and the status it would show. It changes nothing. The error
// says why libvirt could not be looked at.
func DryRun(ctx context.Context, p Parts, snaps []source.Snapshot) ([]plan.Action, status.Host, error) {
	a := New(p)
	a.core.dry = true
	link := Hint{observe.Event{Kind: observe.Connected}}
	events := []Event{link}
	for _, s := range snaps {
		events = append(events, SourceRead{s})
	}
	var actions []plan.Action
	var listErr error
	for len(events) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, status.Host{}, err
		}
		effects := a.core.Step(p.Now(), events...)
		events = nil
		for _, ef := range effects {
			if run, acts := ef.(RunAction); acts {
				actions = append(actions, run.Action)
			}
			ev, ok := a.look(ctx, ef)
			if !ok {
				continue
			}
			if l, isList := ev.(DomainsListed); isList && l.Err != nil {
				listErr = errors.Join(listErr, l.Err)
			}
			events = append(events, ev)
		}
	}
	return actions, a.core.Status(p.Now()), listErr
}

// look runs the effects that only read what planning needs.
func (a *Agent) look(ctx context.Context, ef Effect) (Event, bool) {
	switch ef.(type) {
	case ListDomains, LookupDomain, ScanTree, ReadNetworks:
	default:
		return nil, false
	}
	var ev Event
	a.effect(ctx, ef, func(_ string, f func() Event) { ev = f() })
	return ev, ev != nil
}
