package image

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// oneMount tells whether a file of the tree is in the same mount as the root,
// though their device numbers differ. An overlay file system whose layers are
// several file systems gives its files another number than its directories, and
// btrfs gives each subvolume its own; neither comes or goes by itself, which is
// what a mount of its own could do. Where the kernel names no mounts (before
// Linux 5.8), the device numbers decide.
func (t *Tree) oneMount(r *os.Root, path string) bool {
	root, ok := t.mount(r, ".")
	if !ok {
		return false
	}
	id, ok := t.mount(r, path)
	return ok && id == root
}

// mountID gives the number of the mount that a file beneath r is in, a link
// itself and not where it leads.
func mountID(r *os.Root, path string) (id uint64, ok bool) {
	dir, err := r.OpenFile(".", os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(int(dir.Fd()), path, flags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, false
	}
	return st.Mnt_id, st.Mask&unix.STATX_MNT_ID != 0
}
