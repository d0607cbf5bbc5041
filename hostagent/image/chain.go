package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxChain bounds how many files a chain may have.
const maxChain = 64

// layer is one image of a chain. An empty format is for qemu-img to find out.
type layer struct{ path, format string }

// StandsOn gives the files that the image at an absolute path needs, itself
// first, down to the one that needs no other: each as it is named and, where
// links lead elsewhere, as it is. The file may be anybody's and is read only.
// format is what its owner says ("qcow2"); empty: what qemu-img finds. An error
// means that the chain could not be seen to its end: a file is missing or not
// readable, is named in a way that is no path, or did not answer within the
// deadline of WithDeadline.
func (t *Tree) StandsOn(ctx context.Context, file, format string) ([]string, error) {
	return t.walk(ctx, layer{file, format}, openNamed)
}

// walk walks a chain whose first file is opened by open. A file system that
// hangs is waited for until the deadline; as long as it does, no other chain is
// walked, so that it can hold one goroutine and one qemu-img at most.
func (t *Tree) walk(ctx context.Context, first layer, open func(string) (*os.File, error)) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.deadline, errDeadline)
	defer cancel()
	select {
	case t.walks <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("examine %s: another image is still being examined: %w", first.path, context.Cause(ctx))
	}
	type outcome struct {
		paths []string
		err   error
	}
	back := make(chan outcome, 1)
	go func() {
		defer func() { <-t.walks }()
		paths, err := t.chain(ctx, first, open)
		back <- outcome{paths, err}
	}()
	select {
	case o := <-back:
		return o.paths, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("examine %s: %w", first.path, context.Cause(ctx))
	}
}

// chain ends at a base image of this tree, which is complete in itself.
func (t *Tree) chain(ctx context.Context, first layer, open func(string) (*os.File, error)) ([]string, error) {
	var paths []string
	for at := first; ; open = openNamed {
		if len(paths) > maxChain || slices.Contains(paths, at.path) {
			return paths, fmt.Errorf("examine %s: there is no end to what it stands on", first.path)
		}
		paths = append(paths, at.path)
		found, next, err := t.stand(ctx, at, open)
		if found != "" && found != at.path {
			paths = append(paths, found)
		}
		switch {
		case err != nil && at != first:
			return paths, fmt.Errorf("examine %s: it stands on %s: %w", first.path, clip(at.path, maxProblem), err)
		case err != nil:
			return paths, fmt.Errorf("examine %s: %w", first.path, err)
		case next.path == "":
			return paths, nil
		case t.isBase(next.path):
			return append(paths, next.path), nil
		}
		at = next
	}
}

// stand gives where one image was found, past all links, and what it stands on.
func (t *Tree) stand(ctx context.Context, at layer, open func(string) (*os.File, error)) (found string, next layer, err error) {
	f, err := open(at.path)
	if err != nil {
		return "", layer{}, cause(err)
	}
	defer f.Close()
	found, err = os.Readlink("/proc/self/fd/" + strconv.FormatUint(uint64(f.Fd()), 10))
	if err != nil {
		return "", layer{}, err
	}
	i, err := t.inspect(ctx, f, at.format)
	if err != nil {
		return found, layer{}, err
	}
	if i.Backing == "" {
		return found, layer{}, nil
	}
	path, err := backingPath(at.path, i.Backing)
	return found, layer{path, i.BackingFormat}, err
}

// backingPath is the path of a backing file as the image named of refers to it.
// QEMU takes what comes before a colon and any slash for a protocol (its
// path_has_protocol), and a relative name from the image's own directory.
func backingPath(of, backing string) (string, error) {
	backing = strings.TrimPrefix(backing, "file:")
	if colon := strings.IndexByte(backing, ':'); colon >= 0 && !strings.Contains(backing[:colon], "/") {
		return "", fmt.Errorf("its backing file %q is no path", clip(backing, maxProblem))
	}
	if !filepath.IsAbs(backing) {
		backing = filepath.Join(filepath.Dir(of), backing)
	}
	return filepath.Clean(backing), nil
}

// openNamed opens anybody's image for reading, as libvirt would: through links.
func openNamed(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("the path is not absolute")
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if t := fi.Mode().Type(); t != 0 && t != fs.ModeDevice {
		return nil, errors.New("it is neither a regular file nor a block device")
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// isBase tells whether a path is that of a base image of this tree, there or
// not.
func (t *Tree) isBase(path string) bool {
	_, _, ok := parseBase(filepath.Base(path))
	return ok && filepath.Dir(path) == filepath.Join(t.root, baseDir)
}
