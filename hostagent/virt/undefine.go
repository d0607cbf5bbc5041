package virt

import (
	"context"
	"errors"

	"libvirt.org/go/libvirt"
)

// undefineTries are the flags of an undefine, fullest first. Without the first
// two libvirt refuses to undefine a domain that an admin saved or took
// snapshots of, so they are in every try; the others some drivers do not know.
var undefineTries = [...]libvirt.DomainUndefineFlagsValues{
	undefineAlways | libvirt.DOMAIN_UNDEFINE_NVRAM | libvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
	undefineAlways | libvirt.DOMAIN_UNDEFINE_NVRAM,
	undefineAlways | libvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
	undefineAlways,
}

const undefineAlways = libvirt.DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA

// Undefine removes a domain's definition with its saved state, snapshot and
// checkpoint metadata and NVRAM. A running domain runs on without definition.
// Where there is none to remove, it is success.
func (c *Conn) Undefine(ctx context.Context, uuid string) error {
	err := c.change(ctx, opUndefine, uuid, func(k *link, d *libvirt.Domain) error {
		err := k.undefineDomain(d)
		if errors.Is(err, libvirt.ERR_OPERATION_INVALID) {
			if persistent, readErr := d.IsPersistent(); readErr == nil && !persistent {
				return nil
			}
		}
		return err
	})
	if isNoDomain(err) {
		return nil
	}
	return err
}

// undefineDomain uses the flags this connection's driver takes, finding them
// at first use.
func (k *link) undefineDomain(d *libvirt.Domain) error {
	if known := k.undefine.Load(); known != 0 {
		return d.UndefineFlags(libvirt.DomainUndefineFlagsValues(known))
	}
	var err error
	for _, flags := range undefineTries {
		err = d.UndefineFlags(flags)
		if errors.Is(err, libvirt.ERR_INVALID_ARG) {
			continue
		}
		if err == nil {
			k.undefine.Store(uint32(flags))
		}
		break
	}
	return err
}
