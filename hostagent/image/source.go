package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

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

// young is how old a file at least is for which another digest is final: one
// that was written just now may still be on its way.
const young = time.Minute

// load fills f with the source's bytes and checks their digest.
func (t *Tree) load(ctx context.Context, f *os.File, img spec.Image, progress func(done, total int64)) error {
	s := &sink{f: f, sum: sha256.New(), room: t.imageRoom}
	var err error
	if img.Remote() {
		err = t.fetcher.Fetch(ctx, img.Source, s, t.maxBase, progress)
	} else {
		err = t.copyLocal(ctx, s, img.Source, progress)
	}
	if err != nil {
		return err
	}
	got := hex.EncodeToString(s.sum.Sum(nil))
	switch {
	case got == img.SHA256:
		return nil
	case s.unsure != "":
		return fmt.Errorf("%s has sha256 %s and not that of the configuration, but %s: it is tried again", shown(img), got, s.unsure)
	}
	return &DigestError{Source: shown(img), Want: img.SHA256, Got: got}
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
func (t *Tree) copyLocal(ctx context.Context, s *sink, path string, progress func(done, total int64)) error {
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
	if err := t.imageRoom(fi.Size()); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	c := &counted{ctx: ctx, r: io.LimitReader(src, fi.Size()), total: fi.Size(), progress: upstream.Throttle(t.now, progress)}
	if _, err = io.CopyBuffer(struct{ io.Writer }{s}, c, make([]byte, 1<<20)); err != nil {
		return err
	}
	after, err := src.Stat()
	if err == nil && (stampOf(after) != stampOf(fi) || t.now().Sub(after.ModTime()) < young) {
		s.unsure = "it was written to within the last minute"
	}
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

// sink writes a file and its digest. It implements upstream.Restarter and
// upstream.Expecter.
type sink struct {
	f       *os.File
	sum     hash.Hash
	room    func(size int64) error
	unsure  string // why what came may not be all there is
	written int64  // bytes
	looked  int64  // written when there was room the last time
}

// Expect implements upstream.Expecter.
func (s *sink) Expect(total int64, framed bool) error {
	s.unsure = ""
	if !framed {
		s.unsure = "its server does not say how long it is, so it may have been cut short"
	}
	return s.room(total)
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	if s.written-s.looked >= recheck {
		if err := s.room(0); err != nil {
			return 0, s.after(err)
		}
		s.looked = s.written
	}
	n, err := s.f.Write(p)
	s.sum.Write(p[:n])
	s.written += int64(n)
	return n, s.after(err)
}

// after says of an error of a write how far it came.
func (s *sink) after(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("after %s: %w", amount(uint64(s.written)), err)
}

// Restart implements upstream.Restarter.
func (s *sink) Restart() error {
	s.sum.Reset()
	s.written, s.looked = 0, 0
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.f.Truncate(0)
}
