package image

import (
	"errors"
	"fmt"
	"syscall"
)

// overlayRoom is at least what a new overlay takes: qcow2's header and tables
// have fewer bytes for all disks that a spec can ask for.
const overlayRoom = 1 << 20

// room tells whether size more bytes fit into the tree beside what is kept back
// there. What does not fit is not begun with: tried again and again, it would
// fill the volume each time, for everybody on it.
func (t *Tree) room(what string, size int64, kept uint64) error {
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	need, free := uint64(max(size, 0))+kept, t.free(r)
	switch {
	case need <= free || need == 0:
		return nil
	case kept == 0:
		return fmt.Errorf("%s takes %s, %s are free: %w", what, amount(need), amount(free), syscall.ENOSPC)
	case size <= 0:
		return fmt.Errorf("%s are free, all of which are kept back (limits.disk_reserve): %w", amount(free), syscall.ENOSPC)
	}
	return fmt.Errorf("%s takes %s, %s are free, of which %s are kept back (limits.disk_reserve): %w",
		what, amount(uint64(size)), amount(free), amount(kept), syscall.ENOSPC)
}

// recheck is after how many bytes of an image the room is looked at again: its
// length may be unknown, and others write, too.
const recheck = 16 << 20

// imageRoom is room for a base image, or for size bytes more of it: an overlay
// that can not grow pauses its guest.
func (t *Tree) imageRoom(size int64) error { return t.room("the image", size, t.reserve.Load()) }

// amount is a number of bytes for people.
func amount(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// full says of an error for want of room where there is none, and what to do.
func (t *Tree) full(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("no space in %s, what was written is removed: make room, or move the tree to a larger volume: %w", t.root, err)
}
