// Package domxml owns the libvirt document of a proxy's domain and the names
// that identify it: domain name, UUID, MACs and the ownership element. Pure:
// values in, XML text out.
//
// It does not decide when a domain is defined (plan) and does not talk to
// libvirt (virt).
package domxml

import (
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Acceleration is how guests run.
type Acceleration string

// Accelerations: KVM by the processor, TCG in software.
const (
	KVM Acceleration = "kvm"
	TCG Acceleration = "tcg"
)

// Input is all that a domain document is made from.
type Input struct {
	DomainName   string // current name of the domain: DomainName(spec.Name), or an admin's rename of it
	Spec         spec.Spec
	Owner        observe.Ownership
	Acceleration Acceleration
	Overlay      string // absolute paths
	Base         observe.Base
	Seed         string
	Console      string
	Foreign      []string // metadata of others, from ForeignMetadata
}

// Generate gives the domain's XML. Paths are beneath the image tree, whose
// names were validated; a quote or control character in one is an error
// because libvirt's AppArmor helper rejects such paths.
func Generate(in Input) (string, error) {
	for _, p := range []string{in.Overlay, in.Base.Path, in.Seed, in.Console} {
		if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == '"' || r == '\'' }) {
			return "", fmt.Errorf("domain %s: path %q: quotes and control characters are not allowed", in.DomainName, p)
		}
	}
	meta, err := metadata(in)
	if err != nil {
		return "", err
	}
	d := &libvirtxml.Domain{
		Type:     domainType(in.Acceleration),
		Name:     in.DomainName,
		UUID:     DomainUUID(in.Owner.Host, Identity(in.Owner.Name, in.Owner.Generation)),
		Metadata: &libvirtxml.DomainMetadata{XML: meta},
		Memory:   &libvirtxml.DomainMemory{Value: uint(in.Spec.Memory >> 10), Unit: "KiB"},
		VCPU:     &libvirtxml.DomainVCPU{Value: uint(in.Spec.CPUs)},
		OS: &libvirtxml.DomainOS{
			Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"},
		},
		Features: &libvirtxml.DomainFeatureList{
			ACPI: &libvirtxml.DomainFeature{},
			APIC: &libvirtxml.DomainFeatureAPIC{},
		},
		CPU:        cpu(in.Acceleration),
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices:    devices(in),
	}
	return d.Marshal()
}

func domainType(a Acceleration) string {
	if a == TCG {
		return "qemu"
	}
	return "kvm"
}

// cpu is always explicit: QEMU's own default lacks x86-64-v2, which current
// distributions need to boot.
func cpu(a Acceleration) *libvirtxml.DomainCPU {
	if a == TCG {
		return &libvirtxml.DomainCPU{Mode: "maximum"}
	}
	return &libvirtxml.DomainCPU{Mode: "host-passthrough", Check: "none"}
}

func metadata(in Input) (string, error) {
	own, err := EncodeOwnership(in.Owner)
	if err != nil {
		return "", err
	}
	own = strings.Replace(own, "<proxy ", "<"+NamespacePrefix+":proxy xmlns:"+NamespacePrefix+`="`+Namespace+`" `, 1)
	own = strings.Replace(own, "</proxy>", "</"+NamespacePrefix+":proxy>", 1)
	return own + strings.Join(in.Foreign, ""), nil
}
