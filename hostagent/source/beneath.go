package source

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags keep the opening of a FIFO or a terminal from having effects.
const openFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// open opens the file rel for reading, following links as far as they stay
// beneath the directory. That they do is seen to by the kernel, by openat2(2)
// with RESOLVE_BENEATH, so that nothing changes if a component of the path
// becomes a link meanwhile. Where there is no openat2 (kernels before 5.6, a
// filter of system calls that knows it not), and where it wants to be called
// again because of a rename on its way, os.Root does the same, component by
// component.
func (t tree) open(rel string) (*os.File, error) {
	how := unix.OpenHow{Flags: openFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(t.at.Fd()), rel, &how)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), t.path(rel)), nil
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return t.openStepwise(rel)
	default:
		return nil, &os.PathError{Op: "openat2", Path: rel, Err: err}
	}
}

func (t tree) openStepwise(rel string) (*os.File, error) {
	return t.root.OpenFile(rel, openFlags, 0)
}
