package apply

import (
	"context"
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// errNotOurs stops an action whose domain turned out to be someone else's
// between planning and acting.
var errNotOurs = errors.New("the domain is not this agent's; it is left alone")

// onOurs runs do after it has seen that the domain carries our claim.
func (e *Executor) onOurs(ctx context.Context, a plan.Action, do func() error) error {
	if _, _, err := e.lookupOurs(ctx, a.Name, a.UUID); err != nil {
		return err
	}
	return do()
}

func (e *Executor) lookupOurs(ctx context.Context, name, uuid string) (observe.RawDomain, observe.Ownership, error) {
	d, err := e.Hypervisor.LookupDomain(ctx, uuid)
	if err != nil {
		return d, observe.Ownership{}, passing(err)
	}
	o, err := domxml.DecodeOwnership(d.Metadata)
	if err != nil || !e.ours(o, name, uuid) {
		return d, o, &observe.Error{Op: "check ownership of", Object: d.Name, Class: observe.Clash, Err: errNotOurs}
	}
	return d, o, nil
}

// passing makes an error of a look one that is tried again, whatever it is: that
// a domain can not be seen now says nothing of what its spec asks.
func passing(err error) error {
	if observe.ClassOf(err) != observe.Permanent {
		return err
	}
	return &observe.Error{Op: "look at", Object: "the domain before a change", Class: observe.Transient, Err: err}
}

// ours tells whether a claim is this host's, to that proxy, and genuine: a
// clone carries a copy of the claim under another UUID.
func (e *Executor) ours(o observe.Ownership, name, uuid string) bool {
	return o.Host == e.HostID && o.Name == name && uuid == domxml.DomainUUID(o.Host, domxml.Identity(o.Name, o.Generation))
}

// gone turns "no such domain" into success, for actions whose aim that is.
func gone(err error) error {
	if errors.Is(err, observe.ErrNoDomain) {
		return nil
	}
	return err
}
