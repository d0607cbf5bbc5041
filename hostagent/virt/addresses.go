package virt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Bounds on what one answer may claim; a guest writes it.
const (
	interfacesMax = 64
	addressesMax  = 256
)

// Claims gives the addresses that src claims for the domain's interfaces.
// Class Unavailable when src has no answer now. Interfaces without a MAC, as
// the loopback, claim nothing, nor does what is not an address; of more than
// 64 interfaces or 256 addresses the rest is dropped.
func (c *Conn) Claims(ctx context.Context, uuid string, src observe.AddressSource) ([]observe.Claim, error) {
	w := what{opClaims, uuid}
	of := reads
	if src == observe.FromAgent {
		of = agents
	}
	from, ok := sources(src)
	if !ok {
		return nil, w.fail(observe.Permanent, fmt.Errorf("no such source of addresses: %q", src))
	}
	return onDomain(ctx, c, of, w, func(_ context.Context, k *link, d *libvirt.Domain) ([]observe.Claim, error) {
		if src == observe.FromAgent {
			if err := c.boundAgent(k, d, uuid); err != nil {
				return nil, err
			}
		}
		answer, err := d.ListAllInterfaceAddresses(from)
		if err != nil {
			return nil, err
		}
		all := claims(answer, src)
		if src == observe.FromLease {
			all = c.latestLeases(k, d, all)
		}
		return all, nil
	})
}

func sources(src observe.AddressSource) (libvirt.DomainInterfaceAddressesSource, bool) {
	switch src {
	case observe.FromAgent:
		return libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, true
	case observe.FromLease:
		return libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, true
	case observe.FromARP:
		return libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_ARP, true
	}
	return 0, false
}

// boundAgent makes libvirt give up on a silent guest agent. By default it
// waits for ever. libvirt keeps the setting while the domain runs and writes it
// to disk each time, so each run of a domain gets it once.
func (c *Conn) boundAgent(k *link, d *libvirt.Domain, uuid string) error {
	id, err := d.GetID()
	if err != nil {
		id = 0 // not running; libvirt numbers from 1
	}
	if done, ok := k.bounded.Load(uuid); ok && id != 0 && done == id {
		return nil
	}
	seconds := max(int(c.opt.AgentTimeout/time.Second), 1)
	err = d.AgentSetResponseTimeout(seconds, 0)
	if err == nil {
		k.bounded.Store(uuid, id)
	}
	if errors.Is(err, libvirt.ERR_NO_SUPPORT) { // a driver without agents
		return nil
	}
	return err
}

func claims(answer []libvirt.DomainInterface, src observe.AddressSource) []observe.Claim {
	var out []observe.Claim
	for _, nic := range answer[:min(len(answer), interfacesMax)] {
		mac, ok := canonicalMAC(nic.Hwaddr)
		if !ok {
			continue
		}
		for _, a := range nic.Addrs {
			if len(out) == addressesMax {
				return out
			}
			if addr, err := netip.ParseAddr(a.Addr); err == nil {
				out = append(out, observe.Claim{MAC: mac, Addr: addr.Unmap().WithZone(""), Source: src})
			}
		}
	}
	return out
}

// canonicalMAC gives a MAC in lower case with colons; false when there is none.
func canonicalMAC(s string) (string, bool) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || [6]byte(mac) == [6]byte{} {
		return "", false
	}
	return mac.String(), true
}
