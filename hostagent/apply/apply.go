// Package apply runs one planned action at a time through a small hypervisor
// interface and the image tree. Every action is safe to repeat and leaves
// something from which planning can go on, whatever point it is cut off at.
//
// It decides nothing (plan) and watches nothing; it checks once more, right
// before each mutating call, that the domain is ours (invariant 4).
package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// Hypervisor is what actions need of libvirt. Start of a running domain,
// Shutdown and Destroy of one that is off, Undefine of one that is absent are
// successes.
type Hypervisor interface {
	// ListDomains gives everybody's domains, all of them or an error.
	ListDomains(ctx context.Context) ([]observe.RawDomain, error)
	LookupDomain(ctx context.Context, uuid string) (observe.RawDomain, error)
	DomainXML(ctx context.Context, uuid string, inactive bool) (string, error)
	Define(ctx context.Context, xml string, validate bool) error
	Start(ctx context.Context, uuid string) error
	Resume(ctx context.Context, uuid string) error
	Shutdown(ctx context.Context, uuid string) error
	Destroy(ctx context.Context, uuid string) error
	Undefine(ctx context.Context, uuid string) error
	SetAutostart(ctx context.Context, uuid string, on bool) error
	// SetMetadata replaces our element in the configuration, or, of a domain
	// that has none, in what runs; with an empty xml it removes it.
	SetMetadata(ctx context.Context, uuid, xml string) error
	// SetBandwidth limits the interface with that MAC in the configuration and in
	// what runs, in thousands of bytes per second; 0 lifts a limit.
	SetBandwidth(ctx context.Context, uuid, mac string, inbound, outbound uint) error
	// DropSaved removes the state that a managed save left of a domain that is
	// off, and tells whether there was one.
	DropSaved(ctx context.Context, uuid string) (bool, error)
	NetworkActive(ctx context.Context, network string) (bool, error)
}

// Tree is what actions need of the image tree.
type Tree interface {
	InitMarker() error
	CheckMarker() error
	EnsureBase(ctx context.Context, img spec.Image, progress func(done, total int64)) (observe.Base, error)
	CreateOverlay(ctx context.Context, name, instance string, base observe.Base, size spec.Size) error
	WriteSeed(name, instance string, img seed.Image) error
	WriteRecord(rec observe.Record) error
	PrepareConsole(name string) error
	RemoveIncarnation(name, instance string) error
	RemoveConsole(name string) error
	// Collect removes of base images, by sha256, and of incarnations without a
	// record what neither the tree nor refer, by path, knows to be referred to.
	Collect(ctx context.Context, bases []string, strays []observe.Incarnation, refer func(path string) (bool, error)) (removed []string, err error)
	// StandsOn gives the paths of an image of anybody's, which has that format,
	// and of all that it stands on; an error when they could not all be seen.
	StandsOn(ctx context.Context, file, format string) ([]string, error)
	ScanName(name string) []observe.Incarnation
	Paths(name, instance string) image.Paths
}

// Executor runs actions. Its fields are set once, before the first Run.
type Executor struct {
	Hypervisor   Hypervisor
	Tree         Tree
	HostID       string
	Acceleration domxml.Acceleration
	NewInstance  func() string // a fresh instance-id
	Now          func() time.Time
	Progress     func(sha256 string, done, total int64) // of a base image's fetch
	// Note, which may be nil, is told what an action did that its kind does not
	// say. proxy is empty for what is about none.
	Note func(proxy, text string)
}

// Run runs one action to its end. A nil error means the action's effect is
// there, whether or not it was before.
func (e *Executor) Run(ctx context.Context, a plan.Action) error {
	switch a.Kind {
	case plan.InitTree:
		return e.Tree.InitMarker()
	case plan.FetchImage:
		return e.fetch(ctx, a)
	case plan.Prepare:
		return e.prepare(ctx, a)
	case plan.Define:
		return e.define(ctx, a)
	case plan.Start:
		return e.start(ctx, a)
	case plan.Tune:
		return e.tune(ctx, a)
	case plan.Resume:
		return e.resume(ctx, a)
	case plan.Autostart:
		return e.onOurs(ctx, a, func() error { return e.Hypervisor.SetAutostart(ctx, a.UUID, a.On) })
	case plan.Shutdown:
		return gone(e.onOurs(ctx, a, func() error { return e.Hypervisor.Shutdown(ctx, a.UUID) }))
	case plan.Destroy:
		return gone(e.onOurs(ctx, a, func() error { return e.Hypervisor.Destroy(ctx, a.UUID) }))
	case plan.Undefine:
		return gone(e.onOurs(ctx, a, func() error { return e.Hypervisor.Undefine(ctx, a.UUID) }))
	case plan.Discard:
		return e.discard(ctx, a)
	case plan.Record:
		return e.bringUp(a)
	case plan.Adopt:
		return e.adopt(ctx, a)
	case plan.Disown:
		return e.disown(ctx, a)
	case plan.Collect:
		return e.collect(ctx, a)
	}
	return fmt.Errorf("unknown action %q", a.Kind)
}

func (e *Executor) fetch(ctx context.Context, a plan.Action) error {
	_, err := e.Tree.EnsureBase(ctx, a.Image, func(done, total int64) {
		if e.Progress != nil {
			e.Progress(a.Image.SHA256, done, total)
		}
	})
	var wrong *image.DigestError
	if errors.As(err, &wrong) {
		return &observe.Error{Op: "fetch image", Object: a.Image.Key, Class: observe.Permanent, Err: err}
	}
	return err
}

func (e *Executor) note(proxy, format string, args ...any) {
	if e.Note != nil {
		e.Note(proxy, fmt.Sprintf(format, args...))
	}
}

// discard removes an incarnation that no domain stands on: it looks once more
// at the domain's document in force, because metadata of a running domain may
// be ahead of what runs. Another VM's, an abandoned one's, is left, and so is one
// whose record can not be read any more.
func (e *Executor) discard(ctx context.Context, a plan.Action) error {
	switch inc, _ := e.incarnation(a); {
	case inc.Problem != "":
		return &observe.Error{Op: "discard", Object: a.Instance + " of " + a.Name, Class: observe.Clash, Err: fmt.Errorf("its record says no longer whose it is: %s", inc.Problem)}
	case inc.Record != nil:
		if err := belongs(*inc.Record, a); err != nil {
			return err
		}
	}
	xml, err := e.Hypervisor.DomainXML(ctx, a.UUID, false)
	if gone(err) != nil {
		return err
	}
	if overlay := e.Tree.Paths(a.Name, a.Instance).Overlay; strings.Contains(xml, overlay) {
		return fmt.Errorf("discard incarnation %s of %s: its domain uses %s", a.Instance, a.Name, overlay)
	}
	if a.Last { // before the record goes, which alone still tells of the proxy
		if err := e.Tree.RemoveConsole(domxml.Identity(a.Name, a.Generation)); err != nil {
			return err
		}
	}
	return e.Tree.RemoveIncarnation(a.Name, a.Instance)
}
