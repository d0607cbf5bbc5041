package domxml

import (
	"libvirt.org/go/libvirtxml"
)

// bootDiskSize is what firmware takes for a disk; of a smaller one it boots
// nothing. Bytes.
const bootDiskSize = 1 << 20

// BootDisk is a raw disk whose boot sector powers the machine off at once: it writes SLP_EN with sleep type
// 0 to the ACPI PM1a control register of q35 (I/O port 0x604, where SeaBIOS
// puts it), then halts. A domain that runs it goes off within a second where
// guests really execute, and stays on for ever where they do not.
func BootDisk() []byte {
	code := []byte{
		0xba, 0x04, 0x06, // mov dx, 0x604
		0xb8, 0x00, 0x20, // mov ax, 0x2000
		0xef,       // out dx, ax
		0xfa, 0xf4, // cli; hlt
		0xeb, 0xfd, // jmp back to hlt
	}
	disk := make([]byte, bootDiskSize)
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

// BootCheck is the document of a small domain that boots disk, a raw file that
// holds BootDisk. It carries no ownership: it is transient, made and
// waited for by one command.
func BootCheck(name, uuid string, a Acceleration, disk string) (string, error) {
	d := &libvirtxml.Domain{
		Type:   domainType(a),
		Name:   name,
		UUID:   uuid,
		Memory: &libvirtxml.DomainMemory{Value: 64, Unit: "MiB"},
		VCPU:   &libvirtxml.DomainVCPU{Value: 1},
		OS: &libvirtxml.DomainOS{
			Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"},
		},
		Features:   &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}},
		CPU:        cpu(a),
		OnPoweroff: "destroy",
		OnReboot:   "destroy",
		OnCrash:    "destroy",
		Devices: &libvirtxml.DomainDeviceList{
			Disks: []libvirtxml.DomainDisk{{
				Device:   "disk",
				Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
				Source:   fileSource(disk),
				Target:   &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
				ReadOnly: &libvirtxml.DomainDiskReadOnly{},
			}},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "none"},
		},
	}
	return d.Marshal()
}
