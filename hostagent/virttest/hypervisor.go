package virttest

import (
	"context"
	"net/netip"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Hypervisor is all that the real link and the Fake both do. Consumers declare
// the few methods they use; this is for the conformance suite.
type Hypervisor interface {
	Run(ctx context.Context) error
	Events() <-chan observe.Event
	Stats() observe.LinkStats

	ListDomains(ctx context.Context) ([]observe.RawDomain, error)
	LookupDomain(ctx context.Context, uuid string) (observe.RawDomain, error)
	DomainXML(ctx context.Context, uuid string, inactive bool) (string, error)
	Claims(ctx context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error)
	NetworkPrefixes(ctx context.Context, network string) ([]netip.Prefix, error)
	NetworkActive(ctx context.Context, network string) (bool, error)
	Version(ctx context.Context) (lib, hypervisor string, err error)
	Capabilities(ctx context.Context) (string, error)

	Define(ctx context.Context, xml string, validate bool) error
	CreateTransient(ctx context.Context, xml string) error
	Start(ctx context.Context, uuid string) error
	Shutdown(ctx context.Context, uuid string) error
	Resume(ctx context.Context, uuid string) error
	Destroy(ctx context.Context, uuid string) error
	Undefine(ctx context.Context, uuid string) error
	SetAutostart(ctx context.Context, uuid string, on bool) error
	SetMetadata(ctx context.Context, uuid, xml string) error
	SetBandwidth(ctx context.Context, uuid, mac string, inbound, outbound uint) error
	DropSaved(ctx context.Context, uuid string) (bool, error)
}

// Handle is what the suite does to a hypervisor from outside: what an admin
// does to a domain, and what befalls the link. After RestoreLink the link comes
// up, at once or by itself.
type Handle interface {
	Hypervisor
	AdminPause(uuid string)
	AdminSave(uuid string)
	LoseLink(detail string)
	RestoreLink()
}

var _ Handle = (*Fake)(nil)
