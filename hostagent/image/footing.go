package image

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// footing is what images in the disk directory stand on, as far as no record
// says it: those of ours that lost theirs, and what others put there.
type footing struct {
	on      map[string][]string // the chain of each, by file name
	unknown map[string]error    // those that could not be examined
}

// examineDisk looks at every file of the disk directory that may be such an
// image.
func (t *Tree) examineDisk(ctx context.Context) (footing, error) {
	foot := footing{on: map[string][]string{}, unknown: map[string]error{}}
	c, err := t.reread()
	if err != nil {
		return foot, err
	}
	r, err := t.open()
	if err != nil {
		return foot, err
	}
	defer r.Close()
	files, err := readNames(r, diskDir)
	if err != nil {
		return foot, err
	}
	explained := t.explained(c.tree.Incarnations)
	for _, file := range files {
		_, _, kind, part, ok := ours(file, "")
		overlay := ok && !part && kind == KindOverlay
		if explained[file] || ok && !overlay {
			continue
		}
		fi, err := r.Lstat(diskDir + "/" + file)
		switch {
		case errors.Is(err, os.ErrNotExist) || err == nil && !fi.Mode().IsRegular() && !overlay:
			continue // removed since, or no image
		case err != nil:
			foot.unknown[file] = err
			continue
		}
		open := func(string) (*os.File, error) { return openImage(r, diskDir+"/"+file) }
		at := layer{filepath.Join(t.root, diskDir, file), ""}
		if overlay {
			at.format = "qcow2"
		}
		if foot.on[file], err = t.walk(ctx, at, open); err != nil {
			foot.unknown[file] = err
		}
		if ctx.Err() != nil {
			return foot, context.Cause(ctx)
		}
	}
	return foot, nil
}

// explained gives the overlays, by file name, whose record says what they stand
// on.
func (t *Tree) explained(all map[string][]observe.Incarnation) map[string]bool {
	out := map[string]bool{}
	for _, of := range all {
		for _, i := range of {
			if i.Record != nil {
				out[filepath.Base(t.Paths(i.Name, i.Instance).Overlay)] = true
			}
		}
	}
	return out
}

// carries tells whether another image stands on the file. It goes by the last
// element of paths, which no two files of a tree share, because links give a
// file more than one path.
func (foot footing) carries(path string) bool {
	for file, chain := range foot.on {
		for _, p := range chain {
			if filepath.Base(p) == filepath.Base(path) && file != filepath.Base(path) {
				return true
			}
		}
	}
	return false
}

// forget drops an image that was removed.
func (foot footing) forget(path string) {
	delete(foot.on, filepath.Base(path))
	delete(foot.unknown, filepath.Base(path))
}

// doubt is an error while there are images that could not be examined.
func (foot footing) doubt() error {
	for _, file := range slices.Sorted(maps.Keys(foot.unknown)) {
		return foot.unknown[file]
	}
	return nil
}

// reread gives what is in the tree, past the cache.
func (t *Tree) reread() (*contents, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return t.readContents(r)
}

// named gives the base images that records name.
func (c *contents) named() map[string]bool {
	out := map[string]bool{}
	for _, of := range c.tree.Incarnations {
		for _, i := range of {
			if i.Record != nil {
				out[i.Record.Base] = true
			}
		}
	}
	return out
}
