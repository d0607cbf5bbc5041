package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// referrer tells whether somebody refers to a file, by its path.
type referrer = func(path string) (bool, error)

// Collect removes those of the base images, by sha256, and of the incarnations
// without a record that nobody needs, and what interrupted fetches left. It
// gives the paths of the files that it removed. refer tells whether somebody
// outside the tree refers to a file, by its path, from memory; its error means
// that this can not be told.
//
// An incarnation stays when it has a record by now, readable or not, when refer
// says so of its overlay or seed, or when another image in the tree stands on
// its overlay. A base stays while it is fetched, when a record names it, when an
// overlay without a readable record stands on it, or when refer says so. While
// an image in the tree or refer leaves that in doubt, everything stays that the
// doubt is about, and the error says why. Other files are removed nevertheless.
func (t *Tree) Collect(ctx context.Context, bases []string, strays []observe.Incarnation, refer func(path string) (bool, error)) (removed []string, err error) {
	if err := t.sweep(); err != nil {
		return nil, fmt.Errorf("collect unused images: %w", err)
	}
	foot, err := t.examineDisk(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect unused images: %w", err)
	}
	removed, straysErr := t.collectStrays(strays, refer, foot)
	gone, basesErr := t.collectBases(bases, refer, foot)
	if err := errors.Join(straysErr, basesErr); err != nil {
		return append(removed, gone...), fmt.Errorf("collect unused images: %w", err)
	}
	return append(removed, gone...), nil
}

// sweep removes what interrupted fetches left.
func (t *Tree) sweep() error {
	dir, err := t.openSub(baseDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return t.sweepParts(dir)
}

func (t *Tree) collectStrays(strays []observe.Incarnation, refer referrer, foot footing) (removed []string, err error) {
	for _, s := range strays {
		gone, strayErr := t.collectStray(s, refer, foot)
		if strayErr != nil {
			err = errors.Join(err, fmt.Errorf("incarnation %s of %s is kept: %w", clip(s.Instance, maxQuoted), clip(s.Name, maxQuoted), strayErr))
		}
		removed = append(removed, gone...)
	}
	return removed, err
}

func (t *Tree) collectStray(s observe.Incarnation, refer referrer, foot footing) (removed []string, err error) {
	if err := checkIDs(s.Name, s.Instance); err != nil {
		return nil, err
	}
	p := t.Paths(s.Name, s.Instance)
	if foot.carries(p.Overlay) {
		return nil, nil
	}
	for _, path := range []string{p.Overlay, p.Seed} {
		if yes, err := refer(path); yes || err != nil {
			return nil, err
		}
	}
	now, err := t.look(s.Name, s.Instance)
	if err != nil || now == nil || now.Record != nil || now.Problem != "" {
		return nil, err
	}
	if err := t.RemoveIncarnation(s.Name, s.Instance); err != nil {
		return nil, err
	}
	foot.forget(p.Overlay)
	if now.Overlay {
		removed = append(removed, p.Overlay)
	}
	if now.Seed {
		removed = append(removed, p.Seed)
	}
	return removed, nil
}

// look gives an incarnation as it is now; nil when nothing is there.
func (t *Tree) look(name, instance string) (*observe.Incarnation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, err := t.readName(name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(i observe.Incarnation) bool { return i.Instance == instance })
	if i < 0 {
		return nil, nil
	}
	return &found[i], nil
}

// collectBases holds up the making of overlays: what was decided on is no
// longer true once there is one more.
func (t *Tree) collectBases(bases []string, refer referrer, foot footing) (removed []string, err error) {
	if len(bases) == 0 {
		return nil, nil
	}
	if err := foot.doubt(); err != nil {
		return nil, fmt.Errorf("every base image is kept: %w", err)
	}
	t.baseUse.Lock()
	defer t.baseUse.Unlock()
	c, err := t.reread()
	if err != nil {
		return nil, err
	}
	named := c.named()
	keep := func(b observe.Base) (bool, error) {
		if named[b.SHA256] || foot.carries(b.Path) {
			return true, nil
		}
		return refer(b.Path)
	}
	var failed error
	for _, sha256 := range bases {
		for _, format := range formats() {
			base := t.base(sha256, format)
			done, err := t.collectBase(base, keep)
			if err != nil && !errors.Is(failed, err) { // one doubt keeps many
				failed = errors.Join(failed, fmt.Errorf("base image %s is kept: %w", clip(sha256, maxQuoted), err))
			}
			if done {
				removed = append(removed, base.Path)
			}
		}
	}
	return removed, failed
}

func (t *Tree) collectBase(base observe.Base, keep func(observe.Base) (bool, error)) (done bool, err error) {
	if !validDigest(base.SHA256) {
		return false, errors.New("that is no sha256 in lower-case hex digits")
	}
	if kept, err := keep(base); kept || err != nil {
		return false, err
	}
	return t.removeBase(filepath.Base(base.Path))
}

// removeBase removes a base image unless it is being fetched; done is false
// when there was nothing to remove.
func (t *Tree) removeBase(file string) (done bool, err error) {
	err = t.unlessFlying(file, func() error {
		r, err := t.open()
		if err != nil {
			return err
		}
		defer r.Close()
		fi, err := r.Lstat(baseDir + "/" + file)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.Mode().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		done = true
		if err := remove(r, baseDir+"/"+file); err != nil {
			return err
		}
		return t.step("removed " + file)
	})
	return done && err == nil, err
}
