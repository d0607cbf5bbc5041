package virttest

import "context"

// saved is a domain's state on disk: a start takes it up again.
type saved struct {
	def    *definition // what it ran on, whatever was defined since
	paused bool
}

// boot starts a domain that is off: where its saved state left off, or anew.
func (d *domain) boot() {
	d.live = d.config
	if d.saved != nil {
		d.live, d.paused = d.saved.def, d.saved.paused
		d.saved = nil
	}
}

// AdminSave saves a domain's state and takes its power away, as virsh
// managedsave does. libvirt refuses that for one that is off or transient:
// nothing happens.
func (f *Fake) AdminSave(uuid string) {
	f.admin(uuid, "saved", func(d *domain) {
		if d.live != nil && d.config != nil {
			d.saved = &saved{d.live, d.paused}
			f.stop(d)
		}
	})
}

// DropSaved removes the saved state of a domain, and tells whether there was
// one.
func (f *Fake) DropSaved(ctx context.Context, uuid string) (dropped bool, err error) {
	err = f.onDomain(ctx, "DropSaved", what{"drop saved state of domain", uuid}, func(d *domain) error {
		if dropped = d.saved != nil; dropped {
			d.saved = nil
			f.changes = append(f.changes, "DropSaved "+d.uuid) // libvirt has no event for it
		}
		return nil
	})
	return dropped, err
}
