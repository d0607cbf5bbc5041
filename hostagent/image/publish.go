package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxEntries bounds a directory of the tree.
const maxEntries = 200_000

// publish makes a file appear under its final name with exactly the mode, or
// leaves that name as it is: a temporary file beside it, fsync, rename, fsync of
// the directory. The temporary name follows from the final one, so a killed
// call leaves at most one file, which the next call replaces. An error for want
// of room says so and names the tree.
func (t *Tree) publish(dir *os.Root, final string, mode os.FileMode, write func(*os.File) error) (err error) {
	defer func() { err = t.full(err) }()
	part := partName(final)
	if err := remove(dir, part); err != nil {
		return err
	}
	// O_EXCL follows no link that somebody puts there meanwhile.
	f, err := dir.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			err = errors.Join(err, remove(dir, part))
		}
	}()
	// By hand and exactly: the umask may take bits away, and the group is the
	// directory's.
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"created", func() error { return nil }},
		{"written", func() error { return write(f) }},
		{"mode", func() error { return f.Chmod(mode) }},
		{"synced", f.Sync},
		{"renamed", func() error { return dir.Rename(part, final) }},
		{"published", func() error { return syncDir(dir) }},
	} {
		if err := s.do(); err != nil {
			return err
		}
		if err := t.step(s.name); err != nil {
			return err
		}
	}
	return nil
}

// content is a write function for bytes at hand.
func content(data []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
}

// syncDir makes renames in a directory outlast a power failure.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove removes a file; one that is gone already is success.
func remove(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sub opens a directory of the tree; verify has seen that it is one, or that
// it is missing. create makes a missing one.
func sub(r *os.Root, name string, create bool) (*os.Root, error) {
	dir, err := r.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err := r.Mkdir(name, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		return r.OpenRoot(name)
	}
	return dir, err
}

// openSub checks the marker and opens a directory of the tree for a change,
// making it when it is missing.
func (t *Tree) openSub(name string) (*os.Root, error) {
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	dir, err := sub(r, name, true)
	if err != nil {
		return nil, fmt.Errorf("open image tree %s: %w", t.root, err)
	}
	return dir, nil
}

// readNames lists a directory beneath r in no order; one that is missing is
// empty, one with more than maxEntries entries an error.
func readNames(r *os.Root, name string) ([]string, error) {
	f, err := r.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("list %s: more than %d entries: move away what does not belong there", name, maxEntries)
	}
	return names, nil
}
