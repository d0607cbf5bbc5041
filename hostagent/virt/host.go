package virt

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Version gives the daemon's libvirt version ("9.0.0") and the hypervisor with
// its version ("QEMU 7.2.0").
func (c *Conn) Version(ctx context.Context) (lib, hypervisor string, err error) {
	v, err := do(ctx, c, reads, what{opVersion, c.opt.URI}, func(_ context.Context, k *link) (v [2]string, err error) {
		l, err := k.conn.GetLibVersion()
		if err != nil {
			return v, err
		}
		kind, err := k.conn.GetType()
		if err != nil {
			return v, err
		}
		h, err := k.conn.GetVersion()
		return [2]string{version(l), kind + " " + version(h)}, err
	})
	return v[0], v[1], err
}

// Capabilities gives libvirt's capabilities XML.
func (c *Conn) Capabilities(ctx context.Context) (string, error) {
	return do(ctx, c, reads, what{opCapabilities, c.opt.URI}, func(_ context.Context, k *link) (string, error) {
		return k.conn.GetCapabilities()
	})
}

// NetworkPrefixes gives the subnets of a libvirt network; none for a network
// that only joins a bridge.
func (c *Conn) NetworkPrefixes(ctx context.Context, network string) ([]netip.Prefix, error) {
	w := what{opNetwork, network}
	return onNetwork(ctx, c, w, func(n *libvirt.Network) ([]netip.Prefix, error) {
		text, err := n.GetXMLDesc(0)
		if err != nil {
			return nil, err
		}
		prefixes, err := prefixesIn(text)
		if err != nil {
			return nil, w.fail(observe.Permanent, err)
		}
		return prefixes, nil
	})
}

// NetworkActive tells whether a libvirt network is started.
func (c *Conn) NetworkActive(ctx context.Context, network string) (bool, error) {
	return onNetwork(ctx, c, what{opNetwork, network}, (*libvirt.Network).IsActive)
}

func onNetwork[T any](ctx context.Context, c *Conn, w what, f func(*libvirt.Network) (T, error)) (T, error) {
	return do(ctx, c, reads, w, func(_ context.Context, k *link) (v T, err error) {
		n, err := k.conn.LookupNetworkByName(w.object)
		if err != nil {
			return v, err
		}
		c.hold(1)
		defer c.free(n)
		return f(n)
	})
}

func prefixesIn(text string) ([]netip.Prefix, error) {
	var n libvirtxml.Network
	if err := n.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("its XML: %w", err)
	}
	var out []netip.Prefix
	for _, ip := range n.IPs {
		addr, err := netip.ParseAddr(ip.Address)
		if err != nil {
			return nil, fmt.Errorf("address of its <ip>: %w", err)
		}
		p, err := addr.Prefix(bits(addr, ip))
		if err != nil {
			return nil, fmt.Errorf("prefix of its <ip> %s: %w", addr, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// bits gives the prefix length of an <ip>; -1 when it makes no sense. Without
// prefix and netmask it is that of the address's class, and 64 for IPv6, as in
// libvirt's virSocketAddrGetIPPrefix.
func bits(addr netip.Addr, ip libvirtxml.NetworkIP) int {
	switch {
	case ip.Prefix != 0:
		return int(ip.Prefix)
	case ip.Netmask != "":
		mask, err := netip.ParseAddr(ip.Netmask)
		if err != nil {
			return -1
		}
		ones, size := net.IPMask(mask.AsSlice()).Size()
		if size == 0 {
			return -1
		}
		return ones
	case addr.Is6():
		return 64
	}
	ones, _ := net.IP(addr.AsSlice()).DefaultMask().Size()
	return ones
}
