package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// hostNetwork reads the host's own network interfaces and memory.
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
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	as, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return prefixes(as), nil
}

// MemoryAvailable implements hostagent.Host: the kernel's own estimate,
// MemAvailable of proc(5).
func (hostNetwork) MemoryAvailable() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return memAvailable(string(text))
}

func memAvailable(meminfo string) (uint64, error) {
	for line := range strings.Lines(meminfo) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no line MemAvailable")
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
