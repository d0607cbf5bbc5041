package spec

import (
	"fmt"
	"time"
)

// Bounds of a spec. They keep a slip of the keyboard from asking a host for
// what no host has.
const (
	MaxCPUs     = 64
	MinMemory   = 128 * MiB
	MaxMemory   = 1 * TiB
	MinDisk     = 1 * GiB // apart from 0, the base image's own size
	MaxDisk     = 16 * TiB
	MaxNetworks = 8
	MaxVLAN     = 4094

	MaxAddresses = 8 // of one NIC
	MaxDNS       = 8 // of one NIC

	MaxLabels     = 32
	MaxLabelName  = 63  // bytes
	MaxLabelValue = 256 // bytes
	MaxURL        = 2048
	MaxTarget     = 261 // bytes: the longest host name, with brackets and port

	MaxDrain = time.Hour
)

// DefaultPort is the proxy's port where neither spec nor config names one.
const DefaultPort = 3128

// DefaultNetwork is the libvirt network where neither spec nor config names a
// network or a bridge.
const DefaultNetwork = "default"

// DefaultStatus is the status an http probe expects where the spec is silent.
const DefaultStatus = 204

// ParseMemory reads a memory size: whole MiB from MinMemory to MaxMemory.
func ParseMemory(text string) (Size, error) {
	size, err := ParseSize(text)
	switch {
	case err != nil:
		return 0, err
	case size < MinMemory || size > MaxMemory:
		return 0, fmt.Errorf("%s is out of bounds; want %s to %s", size, MinMemory, MaxMemory)
	case size%MiB != 0:
		return 0, fmt.Errorf("%s is not a whole number of MiB", size)
	}
	return size, nil
}

// ParseDisk reads a disk size: MinDisk to MaxDisk, or "0GiB" for the base
// image's own size.
func ParseDisk(text string) (Size, error) {
	size, err := ParseSize(text)
	if err != nil {
		return 0, err
	}
	if size != 0 && (size < MinDisk || size > MaxDisk) {
		return 0, fmt.Errorf("%s is out of bounds; want %s to %s, or \"0GiB\" for the base image's own size", size, MinDisk, MaxDisk)
	}
	return size, nil
}
