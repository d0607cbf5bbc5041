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
	in := a.Spec.SeedInput(instance)
	img, err := seed.Build(in)
	if err != nil {
		return seedError(a.Name, err)
	}
	rec := observe.Record{
		Version: observe.RecordVersion,
		Host:    e.HostID, Name: a.Name, UUID: a.UUID, Instance: instance, Origin: a.Origin,
		SpecHash: a.Hash.String(), SeedHash: in.ContentHash(), SeedFile: img.SHA256, SeedSize: int64(len(img.Bytes)),
		Base: a.Base.SHA256, Format: a.Base.Format, Created: e.Now().UTC(),
	}
	if err := e.Tree.WriteRecord(rec); err != nil {
		return err
	}
	if err := e.Tree.WriteSeed(a.Name, instance, img); err != nil {
		return err
	}
	return e.Tree.CreateOverlay(ctx, a.Name, instance, *a.Base, a.Spec.Disk)
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
	rec, err := e.record(a.Name, a.Instance)
	if err != nil {
		return err
	}
	there, err := e.present(ctx, a)
	if err != nil {
		return err
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
			Spec: a.Hash, Seed: rec.SeedHash, Base: rec.Base,
		},
		Acceleration: e.Acceleration,
		Overlay:      paths.Overlay, Base: *a.Base, Seed: paths.Seed, Console: paths.Console,
		Foreign: there.foreign,
	})
	if err != nil {
		return err
	}
	if rec.SpecHash != a.Hash.String() || rec.Origin != a.Origin {
		rec.SpecHash, rec.Origin = a.Hash.String(), a.Origin
		if err := e.Tree.WriteRecord(rec); err != nil {
			return err
		}
	}
	if err := e.Hypervisor.Define(ctx, xml, there.spec != a.Hash); err != nil {
		return err
	}
	return e.Hypervisor.SetAutostart(ctx, a.UUID, true)
}

// start starts the domain, after it has made sure that the files it opens are
// there. A domain that somebody else started meanwhile keeps its console log.
func (e *Executor) start(ctx context.Context, a plan.Action) error {
	d, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if err != nil || d.Power != observe.PowerOff {
		return err
	}
	rec, err := e.record(a.Name, a.Instance)
	if err != nil {
		return err
	}
	if err := e.ensureSeed(a, rec); err != nil {
		return err
	}
	if err := e.Tree.PrepareConsole(a.Name); err != nil {
		return err
	}
	err = e.Hypervisor.Start(ctx, a.UUID)
	return e.whyNotStarted(ctx, a, err)
}

// whyWait bounds the search for the reason of a failed start.
const whyWait = 5 * time.Second

// whyNotStarted finds what libvirt only says in words: that a network of the
// domain is not active. A libvirt that does not answer is not asked more.
func (e *Executor) whyNotStarted(ctx context.Context, a plan.Action, err error) error {
	if err == nil || observe.ClassOf(err) != observe.Transient || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, whyWait)
	defer cancel()
	for _, n := range a.Spec.Networks {
		if n.Network == "" {
			continue
		}
		if active, netErr := e.Hypervisor.NetworkActive(ctx, n.Network); netErr == nil && !active {
			return &observe.Error{Op: "start domain of", Object: a.Name, Class: observe.Transient,
				Err: fmt.Errorf("network %s is not active; start it: virsh net-start %s (%w)", n.Network, n.Network, err)}
		}
	}
	return err
}

// resume lets the domain go on if it is still libvirt that paused it: what an
// admin paused stays so.
func (e *Executor) resume(ctx context.Context, a plan.Action) error {
	d, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if err != nil || !d.Stalled {
		return err
	}
	return e.Hypervisor.Resume(ctx, a.UUID)
}

func (e *Executor) record(name, instance string) (observe.Record, error) {
	for _, inc := range e.Tree.ScanName(name) {
		if inc.Instance == instance && inc.Record != nil {
			return *inc.Record, nil
		}
	}
	return observe.Record{}, fmt.Errorf("incarnation %s of %s: its record is missing or unreadable", instance, name)
}

// ensureSeed makes the seed again when it is missing: from the same input,
// under the same instance-id, so that the guest sees no difference. When the
// spec has other content by now there is no seed to make.
func (e *Executor) ensureSeed(a plan.Action, rec observe.Record) error {
	for _, inc := range e.Tree.ScanName(a.Name) {
		if inc.Instance == a.Instance && inc.Seed {
			return nil
		}
	}
	in := a.Spec.SeedInput(a.Instance)
	if in.ContentHash() != rec.SeedHash {
		return fmt.Errorf("seed of %s is missing and its spec has other content by now", a.Name)
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
// and what others keep in its metadata.
type present struct {
	spec    spec.Hash
	foreign []string
}

// present looks at the domain that is about to be defined. One that exists must
// be ours.
func (e *Executor) present(ctx context.Context, a plan.Action) (present, error) {
	d, err := e.lookupOurs(ctx, a.Name, a.UUID)
	if errors.Is(err, observe.ErrNoDomain) {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	o, err := domxml.DecodeOwnership(d.Metadata)
	if err != nil {
		return present{}, err
	}
	if d.Power != observe.PowerOff && o.Instance != a.Instance {
		return present{}, fmt.Errorf("define %s: the domain runs on incarnation %s meanwhile", d.Name, o.Instance)
	}
	xml, err := e.Hypervisor.DomainXML(ctx, a.UUID, true)
	if err != nil {
		return present{}, err
	}
	foreign, err := domxml.ForeignMetadata(xml)
	return present{spec: o.Spec, foreign: foreign}, err
}
