package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// stagingMarker shows that a directory was given to UseStaging before and that
// what lies beside it may be removed.
const stagingMarker = ".egress-seed-staging"

// UseStaging makes dir the place where Build stages files from now on, and
// removes what a killed process left there. Call it once, at the start of the
// process, before the first Build; no two processes may share a directory.
//
// The library that writes images can be told where to stage only through
// TMPDIR, so this sets TMPDIR for the whole process and its children.
//
// dir is created with mode 0700 if missing. It is refused, and nothing in it is
// touched, if it is a symbolic link, belongs to another user, is open to group
// or others, or holds files but no mark of an earlier call: it might be
// somebody's home.
func UseStaging(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("use staging directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("use staging directory: %w", err)
	}
	if err := claimAndSweep(dir); err != nil {
		return fmt.Errorf("use staging directory %s: %w", dir, err)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return fmt.Errorf("use staging directory: %w", err)
	}
	return nil
}

func claimAndSweep(dir string) (err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := checkPrivate(info); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if opened, err := root.Stat("."); err != nil {
		return err
	} else if !os.SameFile(info, opened) {
		return errors.New("was replaced while it was being opened")
	}
	names, err := entryNames(root)
	if err != nil {
		return err
	}
	if err := claim(root, names); err != nil {
		return err
	}
	return sweep(root, names)
}

// checkPrivate reports why a directory is not this user's alone.
func checkPrivate(info fs.FileInfo) error {
	if !info.IsDir() {
		return errors.New("is not a directory; name a real one")
	}
	if perm := info.Mode().Perm(); perm != 0o700 {
		return fmt.Errorf("has mode %#o; make it 0700, secrets lie there", perm)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() {
		return errors.New("belongs to another user; name one of your own")
	}
	return nil
}

func entryNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// claim puts the marker into an empty directory. It is on disk before the
// first secret is, so that no power failure leaves the one without the other.
func claim(root *os.Root, names []string) error {
	if slices.Contains(names, stagingMarker) {
		return nil
	}
	if len(names) > 0 {
		return errors.New("holds files that are not of this use; name an empty directory")
	}
	f, err := root.OpenFile(stagingMarker, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(root.Name())
}

// sweep removes everything but the marker and goes on past what it can not
// remove.
func sweep(root *os.Root, names []string) error {
	var errs []error
	for _, name := range names {
		if name != stagingMarker {
			errs = append(errs, root.RemoveAll(name))
		}
	}
	return errors.Join(errs...)
}
