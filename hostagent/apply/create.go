package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// prepare makes an incarnation: the record first, so that whatever is made
// after it is known to be ours; the overlay last, so that an incarnation with
// an overlay is complete.
func (e *Executor) prepare(ctx context.Context, a plan.Action) error {
	instance := e.NewInstance()
	in := a.Spec.SeedInput(instance, e.macs(a))
	img, err := seed.Build(in)
	if err != nil {
		return seedError(a.Name, err)
	}
	rec := observe.Record{
		Version: observe.RecordVersion,
		Host:    e.HostID, Name: a.Name, UUID: a.UUID, Instance: instance, Origin: a.Origin,
		SpecHash: a.Hash.String(), SeedHash: in.ContentHash(), SeedFile: img.SHA256, SeedSize: int64(len(img.Bytes)),
		Base: a.Base.SHA256, Format: a.Base.Format,
		Generation: a.Generation, SkipCleanup: a.Spec.SkipCleanup, Created: e.created(a.Name),
	}
	if err := e.Tree.WriteRecord(rec); err != nil {
		return err
	}
	if err := e.Tree.WriteSeed(a.Name, instance, img); err != nil {
		return err
	}
	return e.Tree.CreateOverlay(ctx, a.Name, instance, *a.Base, a.Spec.Disk)
}

// macs gives the addresses of the NICs of an action's domain.
func (e *Executor) macs(a plan.Action) func(n int) string {
	return func(n int) string {
		return domxml.MAC(e.HostID, domxml.Identity(a.Name, a.Generation), n)
	}
}

// created is the time of a new incarnation, after those of all there are: in the
// order in which they were made they are told apart, whatever the clock says.
func (e *Executor) created(name string) time.Time {
	now := e.Now().UTC()
	for _, inc := range e.Tree.ScanName(name) {
		if inc.Record != nil && !now.After(inc.Record.Created) {
			now = inc.Record.Created.Add(time.Nanosecond)
		}
	}
	return now
}

// seedError classes what seed.Build says: an input that can not be seeded waits
// for another spec; a staging directory that is full, say, for better times.
func seedError(name string, err error) error {
	class := observe.Transient
	var input *seed.InputError
	if errors.As(err, &input) {
		class = observe.Permanent
	}
	return &observe.Error{Op: "build seed of", Object: name, Class: class, Err: err}
}

// define defines the domain on its incarnation, keeping what others wrote
// into the metadata of a domain that exists.
func (e *Executor) define(ctx context.Context, a plan.Action) error {
	rec, err := e.record(a)
	if err != nil {
		return err
	}
	there, err := e.present(ctx, a)
	if err != nil {
		return err
	}
	if there.spec.Incarnation != a.Hash.Incarnation { // its NICs may be other ones
		if err := e.checkMACs(ctx, a); err != nil {
			return err
		}
	}
	if err := e.ensureSeed(a, rec); err != nil {
		return err
	}
	paths := e.Tree.Paths(a.Name, a.Instance)
	xml, err := domxml.Generate(domxml.Input{
		DomainName: a.Domain,
		Spec:       *a.Spec,
		Owner: observe.Ownership{
			Host: e.HostID, Name: a.Name, Instance: a.Instance, Origin: a.Origin,
			Spec: there.madeOf(a.Hash), Seed: rec.SeedHash, Base: rec.Base, Generation: a.Generation,
		},
		Acceleration: e.Acceleration,
		Overlay:      paths.Overlay, Base: *a.Base, Seed: paths.Seed,
		Console: e.Tree.Paths(domxml.Identity(a.Name, a.Generation), a.Instance).Console, // an abandoned VM keeps its own
		Foreign: there.foreign,
	})
	if err != nil {
		return err
	}
	now := rec
	now.SpecHash, now.Origin, now.SkipCleanup = there.madeOf(a.Hash).String(), a.Origin, a.Spec.SkipCleanup
	if now != rec {
		if err := e.Tree.WriteRecord(now); err != nil {
			return err
		}
	}
	if there.off {
		if err := e.dropSaved(ctx, a); err != nil {
			return err
		}
	}
	if err := e.Hypervisor.Define(ctx, xml, there.spec != a.Hash); err != nil {
		return err
	}
	return e.Hypervisor.SetAutostart(ctx, a.UUID, a.On)
}

// madeOf is what the claim of the new definition says. A domain that runs, made
// by another version of the agent, is still what it was: that its definition is
// made again changes nothing of it.
func (p present) madeOf(want spec.Hash) spec.Hash {
	if p.spec.Version != 0 && !p.off && p.spec.Version != want.Version {
		return p.spec
	}
	return want
}

// dropSaved keeps a domain that was changed while it is off from going on with
// what a managed save left of it as it was.
func (e *Executor) dropSaved(ctx context.Context, a plan.Action) error {
	dropped, err := e.Hypervisor.DropSaved(ctx, a.UUID)
	if dropped {
		e.note(a.Name, "the state that a managed save had left of its domain was dropped, because it is of an earlier definition: %s", a.Reason)
	}
	return err
}

// ensureSeed makes the seed again when it is missing: from the same input,
// under the same instance-id, so that the guest sees no difference. When the
// spec has other content by now there is no seed to make.
func (e *Executor) ensureSeed(a plan.Action, rec observe.Record) error {
	if inc, ok := e.incarnation(a); ok && inc.Seed {
		return nil
	}
	in := a.Spec.SeedInput(a.Instance, e.macs(a))
	if in.ContentHash() != rec.SeedHash {
		return fmt.Errorf("seed of %[1]s is missing, and its spec asks for another by now; for a new guest with that: egress-hostagent recreate %[1]s", a.Name)
	}
	img, err := seed.Build(in)
	if err != nil {
		return err
	}
	if err := e.Tree.WriteSeed(a.Name, a.Instance, img); err != nil {
		return err
	}
	rec.SeedFile, rec.SeedSize = img.SHA256, int64(len(img.Bytes))
	return e.Tree.WriteRecord(rec)
}

// present is what a definition finds: the spec that the domain is defined for,
// what others keep in its metadata, and whether it is there and off.
type present struct {
	spec    spec.Hash
	foreign []string
	off     bool
}

// present looks at the domain that is about to be defined. One that exists must
// be ours.
func (e *Executor) present(ctx context.Context, a plan.Action) (present, error) {
	d, o, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if errors.Is(err, observe.ErrNoDomain) {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	off := d.Power == observe.PowerOff
	if !off && o.Instance != a.Instance {
		return present{}, fmt.Errorf("define %s: the domain runs on incarnation %s meanwhile", d.Name, o.Instance)
	}
	xml, err := e.Hypervisor.DomainXML(ctx, a.UUID, true)
	if err != nil {
		return present{}, err
	}
	foreign, err := domxml.ForeignMetadata(xml)
	return present{spec: o.Spec, foreign: foreign, off: off}, err
}
