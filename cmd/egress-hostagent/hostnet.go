package main

import (
	"fmt"
	"net"
	"net/netip"
)

// hostNetwork reads the host's own network interfaces.
type hostNetwork struct{}

// Addresses implements hostagent.Host.
func (hostNetwork) Addresses() ([]netip.Addr, error) {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, p := range prefixes(as) {
		out = append(out, p.Addr())
	}
	return out, nil
}

// InterfacePrefixes implements hostagent.Host.
func (hostNetwork) InterfacePrefixes(name string) ([]netip.Prefix, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	as, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	return prefixes(as), nil
}

func prefixes(as []net.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range as {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p)
		}
	}
	return out
}
