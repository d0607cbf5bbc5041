package observe

import (
	"net/netip"
	"time"
)

// AddressSource is who claims that a domain has an address.
type AddressSource string

// Sources in order of trust.
const (
	FromAgent AddressSource = "agent"
	FromLease AddressSource = "lease"
	FromARP   AddressSource = "arp"
)

// AddressSources is the order in which sources are asked and believed.
var AddressSources = [...]AddressSource{FromAgent, FromLease, FromARP}

// Claim is one address that a source reports for one interface of a domain.
type Claim struct {
	MAC    string // canonical lower case, colons
	Addr   netip.Addr
	Source AddressSource
}

// Address is an address of a proxy that passed Filter.
type Address struct {
	Addr   netip.Addr    `json:"address"`
	Source AddressSource `json:"source"`
	Seen   time.Time     `json:"seen"` // when the source last confirmed it
	Stale  bool          `json:"stale,omitempty"`
	NIC    int           `json:"-"` // number of the proxy's network interface it is on
}
