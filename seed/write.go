package seed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/renameio/v2"
)

// tempForm is the temporary name WriteFile uses for a path that ends in .iso.
var tempForm = regexp.MustCompile(`^\..+\.iso[0-9]+$`)

// WriteFile puts an image in place under path: a temporary file in the same
// directory, fsync, rename, fsync of the directory. Under the final name there
// is at any time the old image or the new one, whole, even if the process or
// the host dies; a QEMU that has the old one open keeps it.
//
// mode is set exactly, whatever the umask, and may grant no more than 0640:
// seeds hold secrets. A killed process leaves its temporary file behind, which
// the directory's owner finds with IsTemp.
func WriteFile(path string, mode os.FileMode, img Image) error {
	if mode&^0o640 != 0 {
		return fmt.Errorf("write seed %s: mode %#o grants more than 0640", path, mode)
	}
	if len(img.Bytes) == 0 {
		return fmt.Errorf("write seed %s: the image is empty", path)
	}
	if err := replace(path, mode, img.Bytes); err != nil {
		return fmt.Errorf("write seed %s: %w", path, err)
	}
	return nil
}

// IsTemp reports whether a base name is one that WriteFile gives to a file it
// has not finished, for a path that ends in .iso.
func IsTemp(name string) bool { return tempForm.MatchString(name) }

func replace(path string, mode os.FileMode, data []byte) (err error) {
	dir := filepath.Dir(path)
	// The directory is named because renameio would otherwise try TMPDIR first.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in the directory outlast a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
