package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/egress-proxies/egress-hostagent/seed"
)

const (
	seedMode    = 0o640
	consoleMode = 0o640
)

// WriteSeed puts the seed of an incarnation in place, or replaces it; a guest
// that has the old one open keeps it.
func (t *Tree) WriteSeed(name, instance string, img seed.Image) error {
	if err := checkIDs(name, instance); err != nil {
		return fmt.Errorf("write seed: %w", err)
	}
	if len(img.Bytes) == 0 {
		return fmt.Errorf("write seed of %s: the image is empty", name)
	}
	dir, err := t.openSub(seedDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = t.publish(dir, name+"."+instance+seedSuffix, seedMode, func(f *os.File) error {
		if err := t.room("the seed", int64(len(img.Bytes)), 0); err != nil {
			return err
		}
		return content(img.Bytes)(f)
	})
	if err != nil {
		return fmt.Errorf("write seed of %s: %w", name, err)
	}
	return nil
}

// PrepareConsole begins the console log of a name, or of an identity with its
// generation (NAME~1), anew; what the last run of
// the domain wrote is kept as NAME.log.0. It is for a domain that is powered
// off. The new file is the agent's, and stays so: libvirt's log daemon appends
// to a file that is there, and makes one that only root reads otherwise.
func (t *Tree) PrepareConsole(name string) error {
	if err := checkIdentity(name); err != nil {
		return fmt.Errorf("prepare console log: %w", err)
	}
	dir, err := t.openSub(consoleDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	file := name + consoleSuffix
	if fi, err := dir.Lstat(file); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 && fi.Mode().Perm() == consoleMode {
		return nil
	}
	if err := dir.Rename(file, file+".0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prepare console log: %w", err)
	}
	if err := t.step("rotated"); err != nil {
		return err
	}
	f, err := dir.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, consoleMode)
	if err != nil {
		return fmt.Errorf("prepare console log: %w", t.full(err))
	}
	return errors.Join(t.step("created"), f.Chmod(consoleMode), f.Close(), t.step("mode"))
}

// RemoveIncarnation removes the files of one incarnation: overlay and seed with
// what an interrupted call left of them, then the record, which says until the
// end what the others were. What is gone already is success. A base is never
// removed.
func (t *Tree) RemoveIncarnation(name, instance string) error {
	if err := checkIDs(name, instance); err != nil {
		return fmt.Errorf("remove incarnation: %w", err)
	}
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	id := name + "." + instance
	for _, f := range []struct{ dir, file string }{
		{diskDir, partName(id + overlaySuffix)},
		{diskDir, id + overlaySuffix},
		{seedDir, partName(id + seedSuffix)},
		{seedDir, id + seedSuffix},
		{diskDir, partName(id + recordSuffix)},
		{diskDir, id + recordSuffix},
	} {
		if err := remove(r, f.dir+"/"+f.file); err != nil {
			return fmt.Errorf("remove incarnation %s: %w", id, err)
		}
		if err := t.step("removed " + f.file); err != nil {
			return err
		}
	}
	return nil
}

// RemoveConsole removes the console log of a name, and those that libvirt's log
// daemon rotated (NAME.log.0 and so on).
func (t *Tree) RemoveConsole(name string) error {
	if err := checkIdentity(name); err != nil {
		return fmt.Errorf("remove console log: %w", err)
	}
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	files, err := readNames(r, consoleDir)
	if err != nil {
		return fmt.Errorf("remove console log: %w", err)
	}
	for _, file := range files {
		rest, ok := strings.CutPrefix(file, name+consoleSuffix)
		if !ok || !rotation(rest) {
			continue
		}
		if err := remove(r, consoleDir+"/"+file); err != nil {
			return fmt.Errorf("remove console log: %w", err)
		}
		if err := t.step("removed " + file); err != nil {
			return err
		}
	}
	return nil
}

// rotation tells whether s is what rotation adds to a log's name: nothing yet,
// or a dot and a small number.
func rotation(s string) bool {
	if s == "" {
		return true
	}
	digits, ok := strings.CutPrefix(s, ".")
	return ok && len(digits) >= 1 && len(digits) <= 3 && strings.Trim(digits, "0123456789") == ""
}
