package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// baseMode lets nobody write: overlays rely on a base that never changes.
const baseMode = 0o440

// DigestError means that a source holds other bytes than the configuration
// says. Another attempt gets the same bytes unless the source changes.
type DigestError struct {
	Source    string // without query and credentials
	Want, Got string // sha256
}

// Error implements error.
func (e *DigestError) Error() string {
	return fmt.Sprintf("%s has sha256 %s, the configuration says %s: correct one of them", e.Source, e.Got, e.Want)
}

// ImageError means that an image with the right digest can not serve as a base.
type ImageError struct {
	Reason string // and what to do
}

// Error implements error.
func (e *ImageError) Error() string { return e.Reason }

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
	err = t.publish(dir, filepath.Base(base.Path), baseMode, func(f *os.File) error {
		if err := t.load(ctx, f, img, progress); err != nil {
			return err
		}
		if err := t.step("loaded"); err != nil {
			return err
		}
		return t.examine(ctx, f, img)
	})
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("no space in %s, what was written is removed: make room, or move the tree to a larger volume: %w", t.root, err)
	}
	return err
}

// sweepParts removes what interrupted fetches left, of any image.
func (t *Tree) sweepParts(dir *os.Root) error {
	names, err := readNames(dir, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		final, part := parsePart(name)
		if _, _, ok := parseBase(final); !part || !ok || t.flying(final) {
			continue
		}
		if err := remove(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// load fills f with the source's bytes and checks their digest.
func (t *Tree) load(ctx context.Context, f *os.File, img spec.Image, progress func(done, total int64)) error {
	s := &sink{f: f, sum: sha256.New()}
	var err error
	if img.Remote() {
		err = t.fetcher.Fetch(ctx, img.Source, s, t.maxBase, progress)
	} else {
		err = t.copyLocal(ctx, s, img.Source, progress)
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != img.SHA256 {
		return &DigestError{Source: shown(img), Want: img.SHA256, Got: got}
	}
	return nil
}

// shown is an image's source for people.
func shown(img spec.Image) string {
	if img.Remote() {
		return upstream.Redact(img.Source)
	}
	return img.Source
}

// copyLocal copies bytes. A link, hard or by reference, would let a later change
// of the source through.
func (t *Tree) copyLocal(ctx context.Context, w io.Writer, path string, progress func(done, total int64)) error {
	src, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%w: put the image there, readable for the agent, or correct its source", err)
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: correct the image's source", path)
	}
	if fi.Size() > t.maxBase {
		return fmt.Errorf("%s has %d bytes, %d are allowed", path, fi.Size(), t.maxBase)
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	c := &counted{ctx: ctx, r: io.LimitReader(src, fi.Size()), total: fi.Size(), progress: upstream.Throttle(t.now, progress)}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, c, make([]byte, 1<<20))
	return err
}

// counted is a reader that ends with its context and reports progress.
type counted struct {
	ctx         context.Context // of the one call that the reader lives in
	r           io.Reader
	done, total int64
	progress    func(done, total int64)
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	if n > 0 {
		c.done += int64(n)
		c.progress(c.done, c.total)
	}
	return n, err
}

// sink writes a file and its digest. It implements upstream.Restarter.
type sink struct {
	f   *os.File
	sum hash.Hash
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.sum.Write(p[:n])
	return n, err
}

// Restart implements upstream.Restarter.
func (s *sink) Restart() error {
	s.sum.Reset()
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.f.Truncate(0)
}

// examine refuses an image that is not what its entry says or not complete in
// itself. qemu-img finds out the format here, once; from then on everybody is
// told it.
func (t *Tree) examine(ctx context.Context, f *os.File, img spec.Image) error {
	i, err := t.info(ctx, f, "")
	if err != nil {
		return err
	}
	var wrong string
	switch {
	case i.Format != img.Format:
		wrong = fmt.Sprintf("it is a %s image, the configuration says %s: correct the format", clip(i.Format, maxQuoted), img.Format)
	case i.Backing != "":
		wrong = fmt.Sprintf("it depends on a backing file, %q: flatten it with qemu-img convert", clip(i.Backing, maxQuoted))
	case i.FormatSpecific.Data.DataFile != "":
		wrong = fmt.Sprintf("it keeps its data in another file, %q: convert it with qemu-img convert", clip(i.FormatSpecific.Data.DataFile, maxQuoted))
	case i.Encrypted:
		wrong = "it is encrypted: convert it to a plain one"
	case i.FormatSpecific.Data.Corrupt:
		wrong = "it is marked corrupt: get a good copy"
	default:
		return nil
	}
	return &ImageError{Reason: wrong}
}

// permanent makes an error that only another configuration or spec mends.
func permanent(op, object string, err error) error {
	return &observe.Error{Op: op, Object: object, Class: observe.Permanent, Err: err}
}
