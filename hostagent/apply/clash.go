package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// checkMACs refuses a definition one of whose MACs another domain of the host
// has: libvirt takes it, and both lose their network. What can not be read of
// another domain does not hold this one up, because a clash is as good as
// impossible unless somebody copied a definition.
func (e *Executor) checkMACs(ctx context.Context, a plan.Action) error {
	all, err := e.Hypervisor.ListDomains(ctx)
	if err != nil {
		return passing(err)
	}
	wanted := e.macs(a)
	for _, d := range all {
		if d.UUID == a.UUID {
			continue
		}
		have := e.macsOf(ctx, d)
		for n := range a.Spec.Networks {
			if mac := wanted(n); slices.Contains(have, mac) {
				return &observe.Error{Op: "define domain", Object: a.Domain, Class: observe.Clash,
					Err: fmt.Errorf("domain %q has the MAC %s that this one is to have; give that domain another MAC or remove it", d.Name, mac)}
			}
		}
	}
	return nil
}

// macsOf gives the MACs of another domain: of one of ours they are known, so
// that a host full of proxies costs no reads.
func (e *Executor) macsOf(ctx context.Context, d observe.RawDomain) (out []string) {
	if o, err := domxml.DecodeOwnership(d.Metadata); err == nil && e.ours(o, o.Name, d.UUID) {
		for n := range spec.MaxNetworks {
			out = append(out, domxml.MAC(o.Host, domxml.Identity(o.Name, o.Generation), n))
		}
		return out
	}
	xml, err := e.Hypervisor.DomainXML(ctx, d.UUID, true)
	if err != nil {
		return nil
	}
	out, _ = domxml.MACs(xml)
	return out
}
