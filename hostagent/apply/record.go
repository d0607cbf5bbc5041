package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// incarnation looks at the action's incarnation again.
func (e *Executor) incarnation(a plan.Action) (observe.Incarnation, bool) {
	for _, inc := range e.Tree.ScanName(a.Name) {
		if inc.Instance == a.Instance {
			return inc, true
		}
	}
	return observe.Incarnation{}, false
}

// record gives the record of the action's incarnation, which must be of the
// action's VM.
func (e *Executor) record(a plan.Action) (observe.Record, error) {
	inc, ok := e.incarnation(a)
	if !ok || inc.Record == nil {
		return observe.Record{}, fmt.Errorf("incarnation %s of %s: its record is missing or unreadable", a.Instance, a.Name)
	}
	return *inc.Record, belongs(*inc.Record, a)
}

// errOtherVM stops an action whose files are those of an abandoned VM.
var errOtherVM = errors.New("it belongs to another VM of that name, which was abandoned; it is left alone")

// belongs tells whether a record is of the action's VM.
func belongs(rec observe.Record, a plan.Action) error {
	if rec.UUID == a.UUID && !rec.Abandoned {
		return nil
	}
	return &observe.Error{Op: "check incarnation", Object: rec.Instance + " of " + rec.Name, Class: observe.Clash, Err: errOtherVM}
}

// bringUp makes the record say what the spec says by now and the domain does
// not need to know.
func (e *Executor) bringUp(a plan.Action) error {
	rec, err := e.record(a)
	if err != nil {
		return err
	}
	now := rec
	now.Origin, now.SkipCleanup = a.Origin, a.Spec.SkipCleanup
	if h, err := spec.ParseHash(rec.SpecHash); err == nil && h.SameButLive(a.Hash) {
		now.SpecHash = a.Hash.String()
	}
	if now == rec {
		return nil
	}
	return e.Tree.WriteRecord(now)
}

// adopt writes the ownership metadata of a domain that lost it, as the record
// has it. Only a domain that has the record's UUID and stands on the record's
// overlay is the one that the record speaks of.
func (e *Executor) adopt(ctx context.Context, a plan.Action) error {
	d, err := e.Hypervisor.LookupDomain(ctx, a.UUID)
	if err != nil {
		return err
	}
	if o, err := domxml.DecodeOwnership(d.Metadata); err == nil {
		if e.ours(o, a.Name, a.UUID) {
			return nil
		}
		return &observe.Error{Op: "adopt", Object: d.Name, Class: observe.Clash, Err: errNotOurs}
	}
	text, err := e.Hypervisor.DomainXML(ctx, a.UUID, true)
	if err != nil {
		return err
	}
	doc, err := parseDocument(text)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", d.Name, err)
	}
	rec, ok := e.standsOn(a, doc)
	if !ok {
		return &observe.Error{Op: "adopt", Object: d.Name, Class: observe.Clash,
			Err: fmt.Errorf("none of its disks is an overlay of %s that has a record, so it is not the VM that a record speaks of; it is left alone", a.Name)}
	}
	o, err := e.rebuilt(rec)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", d.Name, err)
	}
	xml, err := domxml.EncodeOwnership(o)
	if err != nil {
		return err
	}
	return e.Hypervisor.SetMetadata(ctx, a.UUID, xml)
}

// standsOn gives the record of the incarnation whose overlay is a disk of the
// document: not always the latest, a new one may have been prepared since.
func (e *Executor) standsOn(a plan.Action, doc document) (observe.Record, bool) {
	for _, inc := range e.Tree.ScanName(a.Name) {
		if rec := inc.Record; rec != nil && belongs(*rec, a) == nil && doc.uses(e.Tree.Paths(a.Name, inc.Instance).Overlay) {
			return *rec, true
		}
	}
	return observe.Record{}, false
}

// rebuilt is the claim that a record proves.
func (e *Executor) rebuilt(rec observe.Record) (observe.Ownership, error) {
	h, err := spec.ParseHash(rec.SpecHash)
	if err != nil {
		return observe.Ownership{}, err
	}
	o := observe.Ownership{
		Host: rec.Host, Name: rec.Name, Instance: rec.Instance, Origin: rec.Origin,
		Spec: h, Seed: rec.SeedHash, Base: rec.Base, Generation: rec.Generation,
	}
	if !e.ours(o, rec.Name, rec.UUID) {
		return observe.Ownership{}, errors.New("its record is not of this host, or of another VM")
	}
	return o, nil
}

// disown leaves an abandoned VM to whoever wants it: its records say so, and,
// when the action is to touch its domain, our claim comes off that. Each is
// tried whatever became of the other.
func (e *Executor) disown(ctx context.Context, a plan.Action) error {
	err := e.markAbandoned(a)
	if a.On {
		err = errors.Join(err, gone(e.dropClaim(ctx, a)))
	}
	return err
}

func (e *Executor) markAbandoned(a plan.Action) error {
	if err := e.Tree.CheckMarker(); err != nil {
		return err
	}
	var errs []error
	for _, inc := range e.Tree.ScanName(a.Name) {
		if rec := inc.Record; rec != nil && rec.UUID == a.UUID && !rec.Abandoned {
			now := *rec
			now.Abandoned = true
			errs = append(errs, e.Tree.WriteRecord(now))
		}
	}
	return errors.Join(errs...)
}

func (e *Executor) dropClaim(ctx context.Context, a plan.Action) error {
	_, _, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if errors.Is(err, errNotOurs) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.Hypervisor.SetMetadata(ctx, a.UUID, "")
}
