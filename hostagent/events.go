package hostagent

import (
	"net/netip"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// Event is one message to the Core: something was seen, or an effect ended.
type Event interface{ event() }

// Events.
type (
	// SourceRead is a source's whole content.
	SourceRead struct{ Snapshot source.Snapshot }
	// Hint is an event of the hypervisor: look again.
	Hint struct{ observe.Event }
	// DomainsListed answers ListDomains.
	DomainsListed struct {
		Domains []observe.RawDomain
		Err     error
	}
	// DomainLooked answers LookupDomain.
	DomainLooked struct {
		UUID   string
		Domain observe.RawDomain
		Err    error
	}
	// TreeScanned answers ScanTree.
	TreeScanned struct{ Tree observe.Tree }
	// NetworksRead answers ReadNetworks. A network that could not be read is
	// missing from Prefixes.
	NetworksRead struct {
		Prefixes  map[spec.Network][]netip.Prefix
		HostAddrs []netip.Addr
		Memory    uint64 // bytes the host has available; 0 when it could not be read
	}
	// ClaimsRead answers ReadClaims: the answers of the sources that gave one.
	ClaimsRead struct {
		Name    string
		Run     uint64 // of ReadClaims
		Ask     Ask
		Answers []Answer
		Silent  bool // the guest agent was asked, took its time and gave nothing
	}
	// Reconfigured tells what came of reading the configuration again.
	Reconfigured struct {
		Settings *Settings // nil: those that counted go on to
		Problem  string    // why the one on disk does not count; empty: it does
	}
	// LinkChecked says which calls do not work although the link is up; empty:
	// all do.
	LinkChecked struct{ Degraded string }
	// Probed answers ProbeProxy.
	Probed struct {
		Name   string
		Run    uint64 // of ProbeProxy
		Target probe.Target
		Result probe.Result
	}
	// ActionDone answers RunAction, with what is there after it: a step is
	// planned from what was seen after the one before.
	ActionDone struct {
		Action       plan.Action
		Err          error
		Tree         *observe.Tree         // after InitTree and FetchImage
		Incarnations []observe.Incarnation // of the action's proxy
		Blind        bool                  // the tree could not be read: Incarnations say nothing
		Look         *DomainLooked         // when the action touched a domain
	}
	// FetchProgress says how far a base image is.
	FetchProgress struct {
		SHA256      string
		Done, Total int64
	}
	// StateSaved answers SaveState.
	StateSaved struct{ Err error }
	// Ordered is an operator's order. ID finds its Answered.
	Ordered struct {
		ID    uint64
		Order order.Order
	}
	// Tick says that time passed.
	Tick struct{}
)

// Ask is whom ReadClaims asks.
type Ask int

// Whom to ask. A guest agent that kept its last asker waiting is asked alone,
// so that what the host knows of the domain's addresses does not wait for it.
const (
	AskAll    Ask = iota
	AskHost       // lease and ARP
	AskSilent     // the guest agent
)

// of tells whether that source is asked.
func (a Ask) of(src observe.AddressSource) bool {
	agent := src == observe.FromAgent
	return a == AskAll || agent == (a == AskSilent)
}

// Answer is what one source of addresses said, as far as observe.Answers lets it
// count.
type Answer struct {
	Source observe.AddressSource
	Claims []observe.Claim
}

func (SourceRead) event()    {}
func (Hint) event()          {}
func (DomainsListed) event() {}
func (DomainLooked) event()  {}
func (TreeScanned) event()   {}
func (NetworksRead) event()  {}
func (ClaimsRead) event()    {}
func (Reconfigured) event()  {}
func (LinkChecked) event()   {}
func (Probed) event()        {}
func (ActionDone) event()    {}
func (FetchProgress) event() {}
func (StateSaved) event()    {}
func (Ordered) event()       {}
func (Tick) event()          {}

// Effect is one thing that the Core wants done. Each ends in one event, but
// for RescanSources, Answered and TakeOnHostID.
type Effect interface{ effect() }

// Effects.
type (
	// ListDomains reads all domains.
	ListDomains struct{}
	// LookupDomain reads one domain.
	LookupDomain struct{ UUID string }
	// ScanTree reads the image tree.
	ScanTree struct{}
	// ReadNetworks reads the subnets of the networks that specs use.
	ReadNetworks struct{ Networks []spec.Network }
	// ReadClaims asks for the addresses of a domain with these MACs. Run says
	// which run of the domain is meant.
	ReadClaims struct {
		Name, UUID string
		Run        uint64
		MACs       string // separated by blanks
		Ask        Ask
	}
	// ProbeProxy probes a proxy. Run is that of ReadClaims.
	ProbeProxy struct {
		Name   string
		Run    uint64
		Target probe.Target
	}
	// RunAction runs a planned action.
	RunAction struct{ Action plan.Action }
	// RescanSources makes the sources read again soon.
	RescanSources struct{}
	// SaveState keeps what must survive a restart.
	SaveState struct {
		Changes []state.Change
		Skipped []error // why something is not among them: for the log
	}
	// Answered tells who gave an order what came of it: it is on disk, or Err
	// says why it is not obeyed.
	Answered struct {
		ID   uint64
		Text string
		Err  error
	}
	// TakeOnHostID ends the agent, to be started anew with the host id that is on
	// disk by now.
	TakeOnHostID struct{}
)

func (ListDomains) effect()   {}
func (LookupDomain) effect()  {}
func (ScanTree) effect()      {}
func (ReadNetworks) effect()  {}
func (ReadClaims) effect()    {}
func (ProbeProxy) effect()    {}
func (RunAction) effect()     {}
func (RescanSources) effect() {}
func (SaveState) effect()     {}
func (Answered) effect()      {}
func (TakeOnHostID) effect()  {}
