package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virt"
)

// call is one call of a hypervisor on its way to the process that has it.
type call struct {
	Method, UUID, Text string
	Flag               bool
	Limits             [2]uint
}

// answer is a call's end.
type answer struct {
	Domains  []observe.RawDomain
	Claims   []observe.Claim
	Prefixes []netip.Prefix
	Text     string
	Flag     bool
	Failed   *failure
}

// failure is an error as decisions need it: class and identity, not its type.
type failure struct {
	Op, Object, Text string
	Class            observe.Class
	NoDomain, Busy   bool
}

func pack(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{
		Text: err.Error(), Class: observe.ClassOf(err),
		NoDomain: errors.Is(err, observe.ErrNoDomain), Busy: errors.Is(err, observe.ErrBusy),
	}
	var e *observe.Error
	if errors.As(err, &e) {
		f.Op, f.Object = e.Op, e.Object
	}
	return f
}

func (f *failure) unpack() error {
	switch {
	case f == nil:
		return nil
	case f.NoDomain:
		return &observe.Error{Op: f.Op, Object: f.Object, Class: f.Class, Err: observe.ErrNoDomain}
	case f.Busy:
		return &observe.Error{Op: f.Op, Object: f.Object, Class: f.Class, Err: observe.ErrBusy}
	}
	return &observe.Error{Op: f.Op, Object: f.Object, Class: f.Class, Err: errors.New(f.Text)}
}

// lend lets the process at the other end use the hypervisor, one call at a
// time, until it is gone.
func lend(hv *virt.Conn, c net.Conn) {
	defer c.Close()
	in, out := gob.NewDecoder(c), gob.NewEncoder(c)
	for {
		var req call
		if in.Decode(&req) != nil || out.Encode(perform(hv, req)) != nil {
			return
		}
	}
}

func perform(hv *virt.Conn, req call) (a answer) {
	ctx := context.Background()
	var err error
	switch req.Method {
	case "ListDomains":
		a.Domains, err = hv.ListDomains(ctx)
	case "LookupDomain":
		var d observe.RawDomain
		d, err = hv.LookupDomain(ctx, req.UUID)
		a.Domains = []observe.RawDomain{d}
	case "DomainXML":
		a.Text, err = hv.DomainXML(ctx, req.UUID, req.Flag)
	case "Claims":
		a.Claims, err = hv.Claims(ctx, req.UUID, observe.AddressSource(req.Text))
	case "NetworkPrefixes":
		a.Prefixes, err = hv.NetworkPrefixes(ctx, req.Text)
	case "NetworkActive":
		a.Flag, err = hv.NetworkActive(ctx, req.Text)
	case "Define":
		err = hv.Define(ctx, req.Text, req.Flag)
	case "Start":
		err = hv.Start(ctx, req.UUID)
	case "Resume":
		err = hv.Resume(ctx, req.UUID)
	case "Shutdown":
		err = hv.Shutdown(ctx, req.UUID)
	case "Destroy":
		err = hv.Destroy(ctx, req.UUID)
	case "Undefine":
		err = hv.Undefine(ctx, req.UUID)
	case "SetAutostart":
		err = hv.SetAutostart(ctx, req.UUID, req.Flag)
	case "SetMetadata":
		err = hv.SetMetadata(ctx, req.UUID, req.Text)
	case "SetBandwidth":
		err = hv.SetBandwidth(ctx, req.UUID, req.Text, req.Limits[0], req.Limits[1])
	case "DropSaved":
		a.Flag, err = hv.DropSaved(ctx, req.UUID)
	default:
		err = fmt.Errorf("no such method: %s", req.Method)
	}
	a.Failed = pack(err)
	return a
}

// borrowed is a hypervisor that is in another process, for the agent in this
// one. It sends no events but that it is there: events are hints.
type borrowed struct {
	mu      sync.Mutex
	in      *gob.Decoder
	out     *gob.Encoder
	events  chan observe.Event
	changed func(effect string) // called after each change
}

func borrow(c net.Conn, changed func(effect string)) *borrowed {
	return &borrowed{in: gob.NewDecoder(c), out: gob.NewEncoder(c), changed: changed}
}

// connected makes it ready for an agent, after the one before has ended.
func (b *borrowed) connected() {
	b.events = make(chan observe.Event, 1)
	b.events <- observe.Event{Kind: observe.Connected}
}

func (b *borrowed) ask(req call) (a answer, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.out.Encode(req), b.in.Decode(&a)); err != nil {
		return a, &observe.Error{Op: req.Method, Class: observe.Disconnected, Err: err}
	}
	return a, a.Failed.unpack()
}

// change is ask for a call that changes something.
func (b *borrowed) change(req call) error {
	_, err := b.ask(req)
	if err == nil {
		b.changed(req.Method)
	}
	return err
}

func (b *borrowed) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *borrowed) Events() <-chan observe.Event { return b.events }
func (b *borrowed) Stats() observe.LinkStats     { return observe.LinkStats{Connected: true} }

func (b *borrowed) ListDomains(context.Context) ([]observe.RawDomain, error) {
	a, err := b.ask(call{Method: "ListDomains"})
	return a.Domains, err
}

func (b *borrowed) LookupDomain(_ context.Context, uuid string) (observe.RawDomain, error) {
	a, err := b.ask(call{Method: "LookupDomain", UUID: uuid})
	if err != nil {
		return observe.RawDomain{}, err
	}
	return a.Domains[0], nil
}

func (b *borrowed) DomainXML(_ context.Context, uuid string, inactive bool) (string, error) {
	a, err := b.ask(call{Method: "DomainXML", UUID: uuid, Flag: inactive})
	return a.Text, err
}

func (b *borrowed) Claims(_ context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error) {
	a, err := b.ask(call{Method: "Claims", UUID: uuid, Text: string(src)})
	return a.Claims, err
}

func (b *borrowed) NetworkPrefixes(_ context.Context, network string) ([]netip.Prefix, error) {
	a, err := b.ask(call{Method: "NetworkPrefixes", Text: network})
	return a.Prefixes, err
}

func (b *borrowed) NetworkActive(_ context.Context, network string) (bool, error) {
	a, err := b.ask(call{Method: "NetworkActive", Text: network})
	return a.Flag, err
}

func (b *borrowed) Define(_ context.Context, xml string, validate bool) error {
	return b.change(call{Method: "Define", Text: xml, Flag: validate})
}

func (b *borrowed) Start(_ context.Context, uuid string) error {
	return b.change(call{Method: "Start", UUID: uuid})
}

func (b *borrowed) Resume(_ context.Context, uuid string) error {
	return b.change(call{Method: "Resume", UUID: uuid})
}

func (b *borrowed) Shutdown(_ context.Context, uuid string) error {
	return b.change(call{Method: "Shutdown", UUID: uuid})
}

func (b *borrowed) Destroy(_ context.Context, uuid string) error {
	return b.change(call{Method: "Destroy", UUID: uuid})
}

func (b *borrowed) Undefine(_ context.Context, uuid string) error {
	return b.change(call{Method: "Undefine", UUID: uuid})
}

func (b *borrowed) SetAutostart(_ context.Context, uuid string, on bool) error {
	return b.change(call{Method: "SetAutostart", UUID: uuid, Flag: on})
}

func (b *borrowed) SetMetadata(_ context.Context, uuid, xml string) error {
	return b.change(call{Method: "SetMetadata", UUID: uuid, Text: xml})
}

func (b *borrowed) SetBandwidth(_ context.Context, uuid, mac string, inbound, outbound uint) error {
	return b.change(call{Method: "SetBandwidth", UUID: uuid, Text: mac, Limits: [2]uint{inbound, outbound}})
}

func (b *borrowed) DropSaved(_ context.Context, uuid string) (bool, error) {
	a, err := b.ask(call{Method: "DropSaved", UUID: uuid})
	if err == nil {
		b.changed("DropSaved")
	}
	return a.Flag, err
}
