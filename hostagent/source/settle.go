package source

import (
	"errors"
	"fmt"
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

func identifyOpen(f *os.File) (identity, error) {
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

// keep is the identity as it can be compared after a restart. A device has
// another number after the next boot; an inode and its time of birth say enough.
func (id identity) keep() string {
	if id.birth != 0 {
		return fmt.Sprintf("%d/%d", id.ino, id.birth)
	}
	return fmt.Sprintf("%d/%d/%d", id.ino, id.birth, id.dev)
}

// confirmation is the name of the file by whose presence an operator says that
// a directory is meant to have no specs.
const confirmation = ".empty"

var (
	errReplaced = errors.New("the directory is another one than before (replaced, or a file system was mounted or unmounted): " +
		"it counts as soon as two reads in a row find the same files in it")
	errBare = errors.New("the directory is not known to be the one of before, and has no spec: mount what holds the specs, or put them there; " +
		"if there are to be none, make a file " + confirmation + " in it")
)

// settling decides when a directory that took another's place, or that was
// not there before, can be believed: it may be one that is just being filled,
// or the empty place where the real one is to be mounted.
type settling struct {
	seen    bool // there was a read before
	id      identity
	kept    string // of the directory that an earlier run of the agent believed
	other   bool   // it is not the one that was last believed
	pending bool
	names   []string // while pending: what the last read listed
}

// restored takes note of the identity, as kept, of the directory that the
// specs known from an earlier run were in; "" when that is not known.
func (s *settling) restored(kept string) { s.kept, s.other = kept, true }

// missed takes note of a read that found no directory.
func (s *settling) missed() { s.seen = true }

// check takes note of a read's directory and the names in it. While it can
// not be believed the error says why. listed tells whether specs are known
// that it would have to list.
func (s *settling) check(id identity, names []string, listed bool) error {
	if id == s.id && s.pending && slices.Equal(names, s.names) {
		s.pending, s.names = false, nil
	}
	switch {
	case s.kept != "" && id.keep() == s.kept:
		s.pending, s.other = false, false
	case s.seen && id != s.id:
		s.pending, s.other = true, true
	}
	s.seen, s.id = true, id
	if s.pending {
		s.names = names
		return errReplaced
	}
	if s.other && listed && bare(names) {
		return errBare
	}
	s.other, s.kept = false, ""
	return nil
}

// bare tells whether a directory has neither a spec nor the confirmation that
// this is right.
func bare(names []string) bool {
	return !slices.ContainsFunc(names, func(file string) bool {
		name, _ := proxyName(file)
		return name != "" || file == confirmation
	})
}
