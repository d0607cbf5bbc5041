package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// baseMode lets nobody write: overlays rely on a base that never changes.
const baseMode = 0o440

// EnsureBase has an image in the tree as a base under its digest, and says
// where. One that is there is believed at once, by its name; otherwise the
// source is copied or fetched, its digest checked, and the image itself: it has
// the format that the configuration says, and is complete in one unencrypted
// file. An image that fails the last test gives a permanent error: its digest
// stands for its content. Another digest is a *DigestError.
//
// Any number of calls for one image do the work once. progress, which may be
// nil, is called for the caller whose call does it, on its goroutine, with the
// bytes so far and the total (-1: unknown), at most every
// upstream.ProgressEvery.
func (t *Tree) EnsureBase(ctx context.Context, img spec.Image, progress func(done, total int64)) (observe.Base, error) {
	if !validDigest(img.SHA256) || !validFormat(img.Format) {
		return observe.Base{}, permanent("fetch image", img.Key,
			fmt.Errorf("%q in format %q: a sha256 in lower-case hex digits and qcow2 or raw are needed", clip(img.SHA256, maxQuoted), clip(img.Format, maxQuoted)))
	}
	if !img.Remote() && !filepath.IsAbs(img.Source) {
		return observe.Base{}, permanent("fetch image", img.Key, errors.New("its source is neither an absolute path nor an https URL"))
	}
	base := t.base(img.SHA256, img.Format)
	if err := t.lookBase(base); err == nil {
		return base, nil
	}
	err := t.single(ctx, filepath.Base(base.Path), func() error { return t.publishBase(ctx, img, base, progress) })
	if err == nil {
		return base, nil
	}
	var unfit *ImageError
	if errors.As(err, &unfit) {
		return observe.Base{}, permanent("fetch image", img.Key, err)
	}
	return observe.Base{}, fmt.Errorf("fetch image %s: %w", img.Key, err)
}

// lookBase tells whether a base is published: fs.ErrNotExist when it is not.
func (t *Tree) lookBase(base observe.Base) error {
	dir, err := t.openSub(baseDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	fi, err := dir.Lstat(filepath.Base(base.Path))
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: remove it", base.Path)
	}
	return nil
}

// publishBase is the work of EnsureBase, for one caller per image.
func (t *Tree) publishBase(ctx context.Context, img spec.Image, base observe.Base, progress func(done, total int64)) error {
	// Somebody may have published it between the first look and now.
	if err := t.lookBase(base); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := t.openSub(baseDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := t.sweepParts(dir); err != nil {
		return err
	}
	return t.publish(dir, filepath.Base(base.Path), baseMode, func(f *os.File) error {
		if err := t.load(ctx, f, img, progress); err != nil {
			return err
		}
		if err := t.step("loaded"); err != nil {
			return err
		}
		return t.examine(ctx, f, img)
	})
}

// sweepParts removes what interrupted fetches left, of any image that nobody is
// fetching.
func (t *Tree) sweepParts(dir *os.Root) error {
	names, err := readNames(dir, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		final, part := parsePart(name)
		if _, _, ok := parseBase(final); !part || !ok {
			continue
		}
		if err := t.unlessFlying(final, func() error { return remove(dir, name) }); err != nil {
			return err
		}
	}
	return nil
}

// permanent makes an error that only another configuration or spec mends.
func permanent(op, object string, err error) error {
	return &observe.Error{Op: op, Object: object, Class: observe.Permanent, Err: err}
}
