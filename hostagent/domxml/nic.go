package domxml

import (
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// cleanTraffic is the network filter of libvirt's own that keeps a guest to its
// own addresses; cleanTrafficIP is the parameter of its rules that names an IPv4
// address, once for each (https://libvirt.org/formatnwfilter.html, "Usage of
// variables in filters"). Without one libvirt learns the address from what the
// guest sends first. No rule of that filter lets IPv6 pass, so there is nothing
// to name of it.
const (
	cleanTraffic   = "clean-traffic"
	cleanTrafficIP = "IP"
)

func interfaces(in Input) []libvirtxml.DomainInterface {
	var out []libvirtxml.DomainInterface
	for i, n := range in.Spec.Networks {
		nic := libvirtxml.DomainInterface{
			MAC:       &libvirtxml.DomainInterfaceMAC{Address: MAC(in.Owner.Host, Identity(in.Owner.Name, in.Owner.Generation), i)},
			Source:    attachment(n.Network),
			Model:     &libvirtxml.DomainInterfaceModel{Type: "virtio"},
			Bandwidth: bandwidth(n),
		}
		if n.VLAN != 0 {
			nic.VLan = &libvirtxml.DomainInterfaceVLan{Tags: []libvirtxml.DomainInterfaceVLanTag{{ID: uint(n.VLAN)}}}
		}
		if n.Isolated {
			nic.PortOptions = &libvirtxml.DomainInterfacePortOptions{Isolated: "yes"}
		}
		if n.CleanTraffic {
			nic.FilterRef = cleanFilter(n)
		}
		out = append(out, nic)
	}
	return out
}

// attachment is what a NIC is attached to. A direct one is a macvtap in bridge
// mode: it reaches other guests on that interface and what is beyond it, and
// never the host itself.
func attachment(n spec.Network) *libvirtxml.DomainInterfaceSource {
	switch {
	case n.Bridge != "":
		return &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: n.Bridge}}
	case n.Direct != "":
		return &libvirtxml.DomainInterfaceSource{Direct: &libvirtxml.DomainInterfaceSourceDirect{Dev: n.Direct, Mode: "bridge"}}
	}
	return &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: n.Network}}
}

func cleanFilter(n spec.NIC) *libvirtxml.DomainInterfaceFilterRef {
	ref := &libvirtxml.DomainInterfaceFilterRef{Filter: cleanTraffic}
	for _, a := range n.Addresses {
		if ip := a.Addr().Unmap(); ip.Is4() {
			ref.Parameters = append(ref.Parameters, libvirtxml.DomainInterfaceFilterParam{Name: cleanTrafficIP, Value: ip.String()})
		}
	}
	return ref
}

func bandwidth(n spec.NIC) *libvirtxml.DomainInterfaceBandwidth {
	if n.Inbound == 0 && n.Outbound == 0 {
		return nil
	}
	return &libvirtxml.DomainInterfaceBandwidth{Inbound: average(n.Inbound), Outbound: average(n.Outbound)}
}

func average(r spec.Rate) *libvirtxml.DomainInterfaceBandwidthParams {
	if r == 0 {
		return nil
	}
	kilobytes := int(Kilobytes(r))
	return &libvirtxml.DomainInterfaceBandwidthParams{Average: &kilobytes}
}

// Kilobytes gives a rate as libvirt takes it: in thousands of bytes per second,
// rounded up, since 0 means that there is no limit.
func Kilobytes(r spec.Rate) uint {
	return uint((r + 999) / 1000)
}
