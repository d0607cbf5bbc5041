package source

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// identity tells one directory from another at the same path. The time of
// birth is in it because file systems give the inode number of a removed
// directory to the next one; it is 0 where the file system keeps none.
type identity struct {
	dev, ino uint64
	birth    int64 // nanoseconds since 1970
}

func identify(dir string) (identity, error) {
	return statx(unix.AT_FDCWD, dir, 0)
}

func identifyRoot(root *os.Root) (identity, error) {
	f, err := root.Open(".")
	if err != nil {
		return identity{}, err
	}
	defer f.Close()
	return statx(int(f.Fd()), "", unix.AT_EMPTY_PATH)
}

func statx(fd int, path string, flags int) (identity, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, path, flags, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return identity{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	id := identity{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, nil
}

var errReplaced = errors.New("the directory is another one than before (replaced, or a file system was mounted or unmounted): " +
	"it counts as soon as two reads in a row find the same files in it")

// settling decides when a directory that took another's place, or that was
// not there before, can be believed: it may be one that is just being filled.
type settling struct {
	seen    bool // there was a read before
	id      identity
	pending bool
	names   []string // while pending: what the last read listed
}

// missed takes note of a read that found no directory.
func (s *settling) missed() { s.seen = true }

// check takes note of a read's directory and the names in it. The error is
// errReplaced while it can not be believed.
func (s *settling) check(id identity, names []string) error {
	if id == s.id && s.pending && slices.Equal(names, s.names) {
		s.pending, s.names = false, nil
	}
	if s.seen && id != s.id {
		s.pending = true
	}
	s.seen, s.id = true, id
	if s.pending {
		s.names = names
		return errReplaced
	}
	return nil
}
