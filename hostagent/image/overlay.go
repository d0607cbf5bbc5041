package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// overlayMode lets QEMU write through the tree's group.
const overlayMode = 0o660

// CreateOverlay makes the overlay of an incarnation on a published base. size
// is the disk's virtual size in bytes; 0 means the base's own. A size below the
// base's would cut the guest's file system off and is a permanent error. An
// overlay that is there already on the same base with the same size is success;
// any other is left alone and an error.
func (t *Tree) CreateOverlay(ctx context.Context, name, instance string, base observe.Base, size spec.Size) error {
	if err := checkIDs(name, instance); err != nil {
		return permanent("create overlay", clip(name, maxQuoted), err)
	}
	if !validDigest(base.SHA256) || !validFormat(base.Format) {
		return permanent("create overlay", name, errors.New("its base image is no digest with a format"))
	}
	base = t.base(base.SHA256, base.Format)
	t.baseUse.RLock()
	defer t.baseUse.RUnlock()
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	virtual, err := t.overlaySize(ctx, r, name, base, int64(size))
	if err != nil {
		return err
	}
	dir, err := sub(r, diskDir, true)
	if err != nil {
		return fmt.Errorf("create overlay %s: %w", name, err)
	}
	defer dir.Close()
	if err := t.makeOverlay(ctx, dir, name+"."+instance+overlaySuffix, base, virtual); err != nil {
		return fmt.Errorf("create overlay %s: %w", name, err)
	}
	return nil
}

// overlaySize gives the virtual size that a disk of the wanted size gets.
func (t *Tree) overlaySize(ctx context.Context, r *os.Root, name string, base observe.Base, want int64) (int64, error) {
	least, err := t.baseSize(ctx, r, base)
	if err != nil {
		return 0, fmt.Errorf("create overlay %s: base image: %w", name, err)
	}
	if want != 0 && want < least {
		return 0, permanent("create overlay", name,
			fmt.Errorf("disk of %d bytes is smaller than its base image of %d: a disk never shrinks, ask for at least that", want, least))
	}
	return max(want, least), nil
}

// baseSize gives a base's virtual size. Its content never changes, so it is
// asked for once.
func (t *Tree) baseSize(ctx context.Context, r *os.Root, base observe.Base) (int64, error) {
	file := filepath.Base(base.Path)
	f, err := openImage(r, baseDir+"/"+file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	t.mu.Lock()
	size := t.sizes[file]
	t.mu.Unlock()
	if size != 0 {
		return size, nil
	}
	i, err := t.info(ctx, f, base.Format)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sizes[file] = i.VirtualSize
	return i.VirtualSize, nil
}

// openImage opens a regular file for reading.
func openImage(dir *os.Root, name string) (*os.File, error) {
	fi, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (t *Tree) makeOverlay(ctx context.Context, dir *os.Root, final string, base observe.Base, size int64) error {
	f, err := openImage(dir, final)
	if err == nil {
		defer f.Close()
		return t.sameOverlay(ctx, f, base, size)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.publish(dir, final, overlayMode, func(f *os.File) error {
		if err := t.room("a new overlay", overlayRoom, 0); err != nil {
			return err
		}
		_, err := t.run(ctx, f, "create", "-q", "-f", "qcow2", "-F", base.Format, "-b", base.Path,
			qemuFD, strconv.FormatInt(size, 10))
		if err != nil { // qemu-img says why in words only
			return errors.Join(err, t.room("a new overlay", overlayRoom, 0))
		}
		return nil
	})
}

// sameOverlay tells whether an overlay that is there is the one to make.
func (t *Tree) sameOverlay(ctx context.Context, f *os.File, base observe.Base, size int64) error {
	i, err := t.info(ctx, f, "qcow2")
	if err != nil {
		return err
	}
	if i.Backing != base.Path || i.BackingFormat != base.Format || i.VirtualSize != size {
		return fmt.Errorf("there is one already, of %d bytes on %q (%s) instead of %d bytes on %q (%s): remove that incarnation first",
			i.VirtualSize, clip(i.Backing, maxProblem), clip(i.BackingFormat, maxQuoted), size, base.Path, base.Format)
	}
	return nil
}
