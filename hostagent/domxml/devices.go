package domxml

import (
	"libvirt.org/go/libvirtxml"
)

// AgentChannel is the virtio channel the QEMU guest agent listens on.
const AgentChannel = "org.qemu.guest_agent.0"

func devices(in Input) *libvirtxml.DomainDeviceList {
	return &libvirtxml.DomainDeviceList{
		Disks:      []libvirtxml.DomainDisk{overlayDisk(in), seedDisk(in)},
		Interfaces: interfaces(in),
		Serials:    []libvirtxml.DomainSerial{console(in)},
		Channels: []libvirtxml.DomainChannel{{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: AgentChannel}},
		}},
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio"},
	}
}

// overlayDisk names the whole backing chain, so that neither libvirt nor QEMU
// guesses a format from what a guest may have written.
func overlayDisk(in Input) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Discard: "unmap"},
		Source: fileSource(in.Overlay),
		BackingStore: &libvirtxml.DomainDiskBackingStore{
			Format:       &libvirtxml.DomainDiskFormat{Type: in.Base.Format},
			Source:       fileSource(in.Base.Path),
			BackingStore: &libvirtxml.DomainDiskBackingStore{},
		},
		Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
		Boot:   &libvirtxml.DomainDeviceBoot{Order: 1},
	}
}

// seedDisk is on virtio-blk: cloud kernels have no AHCI driver, and a virtio
// disk is there before cloud-init looks for its data source.
func seedDisk(in Input) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device:   "disk",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Source:   fileSource(in.Seed),
		Target:   &libvirtxml.DomainDiskTarget{Dev: "vdb", Bus: "virtio"},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
}

// fileSource forbids libvirt to change the file's owner: the image tree's
// setgid directories already let QEMU in, and a change of owner would lock the
// agent out (for seed and base for good).
func fileSource(path string) *libvirtxml.DomainDiskSource {
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{
		File:     path,
		SecLabel: []libvirtxml.DomainDeviceSecLabel{{Model: "dac", Relabel: "no"}},
	}}
}

// console is a pty, so that "virsh console" works, logged by virtlogd, so that
// the log goes on while the agent is down and is bounded by virtlogd's
// rotation. The agent makes the file before each start; virtlogd appends to it
// and leaves its owner and mode. (Told to truncate, it makes one of its own,
// which only root can read.)
func console(in Input) libvirtxml.DomainSerial {
	port := uint(0)
	return libvirtxml.DomainSerial{
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
		Target: &libvirtxml.DomainSerialTarget{Port: &port},
		Log:    &libvirtxml.DomainChardevLog{File: in.Console, Append: "on"},
	}
}
