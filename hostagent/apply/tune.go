package apply

import (
	"context"
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// underChange is the Live part of a claim while the domain is being tuned: no
// spec has it. A try that is cut off halfway is taken up again even if the spec
// is by then what it was before.
const underChange = "under-change"

// tune sets the bandwidth of the domain's NICs. The claim says that it is under
// way first and what came of it last, then the record does. What a managed save
// left of a domain that is off has the limits of its time: it is dropped.
func (e *Executor) tune(ctx context.Context, a plan.Action) error {
	d, o, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if err != nil {
		return err
	}
	if o.Instance != a.Instance || !o.Spec.SameButLive(a.Hash) {
		return fmt.Errorf("tune %s: it is defined on incarnation %s for another spec meanwhile", d.Name, o.Instance)
	}
	if o.Spec.Live != underChange {
		if err := e.claimLive(ctx, a, o, underChange); err != nil {
			return err
		}
	}
	if d.Power == observe.PowerOff {
		if err := e.dropSaved(ctx, a); err != nil {
			return err
		}
	}
	mac := e.macs(a)
	for i, n := range a.Spec.Networks {
		if err := e.Hypervisor.SetBandwidth(ctx, a.UUID, mac(i), domxml.Kilobytes(n.Inbound), domxml.Kilobytes(n.Outbound)); err != nil {
			return err
		}
	}
	if err := e.claimLive(ctx, a, o, a.Hash.Live); err != nil {
		return err
	}
	if inc, ok := e.incarnation(a); !ok || inc.Record == nil {
		return nil // the domain alone tells of it
	}
	return e.bringUp(a)
}

func (e *Executor) claimLive(ctx context.Context, a plan.Action, o observe.Ownership, live string) error {
	o.Spec.Live = live
	xml, err := domxml.EncodeOwnership(o)
	if err != nil {
		return err
	}
	return e.Hypervisor.SetMetadata(ctx, a.UUID, xml)
}
