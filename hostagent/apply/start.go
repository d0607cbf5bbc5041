package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// start starts the domain, after it has made sure that the files it opens are
// there. A domain that somebody else started meanwhile keeps its console log.
func (e *Executor) start(ctx context.Context, a plan.Action) error {
	d, _, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if err != nil || d.Power != observe.PowerOff {
		return err
	}
	rec, err := e.record(a)
	if err != nil {
		return err
	}
	if err := e.ensureSeed(a, rec); err != nil {
		return err
	}
	if err := e.Tree.PrepareConsole(domxml.Identity(a.Name, a.Generation)); err != nil {
		return err
	}
	err = e.Hypervisor.Start(ctx, a.UUID)
	return e.whyNotStarted(ctx, a, err)
}

// whyWait bounds the search for the reason of a failed start.
const whyWait = 5 * time.Second

// whyRefused adds what to do to what libvirt said of a start that it refuses,
// where the spec has something that many networks can not do.
func whyRefused(a plan.Action, err error) error {
	for _, n := range a.Spec.Networks {
		if n.VLAN != 0 {
			return &observe.Error{Op: "start domain of", Object: a.Name, Class: observe.Permanent,
				Err: fmt.Errorf("%w; its NIC on %s has vlan = %d, which libvirt takes only on a network of its own that is made for Open vSwitch or SR-IOV: leave vlan out, make an interface of that VLAN on the host (ip link add link IF name IF.%[3]d type vlan id %[3]d) and name it as direct, or a bridge on it as bridge", err, n.Network, n.VLAN)}
		}
	}
	return err
}

// whyNotStarted finds what libvirt only says in words: that a network of the
// domain is not active. A libvirt that does not answer is not asked more.
func (e *Executor) whyNotStarted(ctx context.Context, a plan.Action, err error) error {
	if observe.ClassOf(err) == observe.Permanent {
		return whyRefused(a, err)
	}
	if err == nil || observe.ClassOf(err) != observe.Transient || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, whyWait)
	defer cancel()
	for _, n := range a.Spec.Networks {
		network := n.Network.Network
		if network == "" {
			continue
		}
		if active, netErr := e.Hypervisor.NetworkActive(ctx, network); netErr == nil && !active {
			return &observe.Error{Op: "start domain of", Object: a.Name, Class: observe.Transient,
				Err: fmt.Errorf("network %s is not active; start it: virsh net-start %s (%w)", network, network, err)}
		}
	}
	return err
}

// resume lets the domain go on if it is still libvirt that paused it: what an
// admin paused stays so.
func (e *Executor) resume(ctx context.Context, a plan.Action) error {
	d, _, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if err != nil || !d.Stalled {
		return err
	}
	return e.Hypervisor.Resume(ctx, a.UUID)
}
