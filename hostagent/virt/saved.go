package virt

import (
	"context"
	"errors"

	"libvirt.org/go/libvirt"
)

// DropSaved removes the state that a managed save left of a domain that is off,
// so that its next start boots it, and tells whether there was one. A driver
// that knows no managed save has none.
func (c *Conn) DropSaved(ctx context.Context, uuid string) (bool, error) {
	return onDomain(ctx, c, writes, what{opDropSaved, uuid}, func(ctx context.Context, _ *link, d *libvirt.Domain) (bool, error) {
		saved, err := d.HasManagedSaveImage(0)
		if errors.Is(err, libvirt.ERR_NO_SUPPORT) {
			return false, nil
		}
		if err != nil || !saved {
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		err = d.ManagedSaveRemove(0)
		return err == nil, err
	})
}
