package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const (
	maxMarker     = 4 << 10 // bytes
	markerVersion = 1
	// dirMode is given at mkdir: the set-group-ID bit and the group come from
	// the parent, and a chmod by a non-member of the group would drop the bit.
	dirMode    = 0o710
	markerMode = 0o640
)

// marker is the content of the marker file.
type marker struct {
	Version int    `json:"version"`
	Host    string `json:"host"`
}

// MarkerError means that the tree is not known to be this host's, so nothing
// in it is changed.
type MarkerError struct {
	Root   string
	State  observe.MarkerState
	Host   string // the host id in the marker; empty when none could be read
	Detail string // what is wrong, and what to do
}

// Error implements error.
func (e *MarkerError) Error() string { return fmt.Sprintf("image tree %s: %s", e.Root, e.Detail) }

func (t *Tree) unusable(state observe.MarkerState, format string, args ...any) *MarkerError {
	return &MarkerError{Root: t.root, State: state, Detail: fmt.Sprintf(format, args...)}
}

// CheckMarker tells whether the tree may be used: the root is there, its marker
// names this host, and the tree's directories are directories on the marker's
// own file system, whose device does not change while the agent runs. The error
// is a *MarkerError.
func (t *Tree) CheckMarker() error {
	r, err := t.open()
	if err != nil {
		return err
	}
	return r.Close()
}

// open checks the marker and gives the handle it was checked through: what is
// done beneath that is done in the tree that was checked, whatever is mounted
// over it meanwhile.
func (t *Tree) open() (*os.Root, error) {
	r, err := t.openRoot()
	if err != nil {
		return nil, err
	}
	if err := t.verify(r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (t *Tree) openRoot() (*os.Root, error) {
	if !filepath.IsAbs(t.root) {
		return nil, t.unusable(observe.MarkerUnreadable, "the path is not absolute: correct the configuration")
	}
	r, err := os.OpenRoot(t.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, t.unusable(observe.MarkerUnreadable, "the directory is missing: mount its volume, or create it")
	}
	if err != nil {
		return nil, t.unusable(observe.MarkerUnreadable, "open: %v", cause(err))
	}
	return r, nil
}

func (t *Tree) verify(r *os.Root) error {
	root, err := r.Stat(".")
	if err != nil {
		return t.unusable(observe.MarkerUnreadable, "stat: %v", cause(err))
	}
	fi, err := r.Lstat(markerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return t.unusable(observe.MarkerAbsent, "no marker file %s: mount the tree's volume; only if the tree is to be a new one, run egress-hostagent init-tree as the agent's user", markerFile)
	}
	if err != nil {
		return t.unusable(observe.MarkerUnreadable, "stat %s: %v", markerFile, cause(err))
	}
	if err := t.verifyMarker(r, fi); err != nil {
		return err
	}
	if err := t.verifyDevices(r, t.device(".", root), t.device(markerFile, fi)); err != nil {
		err.Host = t.host
		return err
	}
	return nil
}

func (t *Tree) verifyMarker(r *os.Root, fi fs.FileInfo) error {
	data, err := readRegular(r, markerFile, fi, maxMarker)
	if err != nil {
		return t.unusable(observe.MarkerUnreadable, "read %s: %v", markerFile, err)
	}
	var m marker
	if err := decodeStrict(data, &m); err != nil {
		return t.unusable(observe.MarkerUnreadable, "read %s: %v: restore it from a backup, or find out who changed it", markerFile, err)
	}
	if m.Version != markerVersion {
		return t.unusable(observe.MarkerUnreadable, "%s has version %d, this agent knows %d: upgrade the agent", markerFile, m.Version, markerVersion)
	}
	if m.Host != t.host {
		err := t.unusable(observe.MarkerForeign, "%s names host %q, this one is %q: the tree is another host's, or this host's id changed", markerFile, clip(m.Host, maxQuoted), t.host)
		if spec.CheckName(spec.KindHostID, m.Host) == nil {
			err.Host = m.Host
		}
		return err
	}
	return nil
}

// verifyDevices insists on one file system: a directory of the tree that is a
// mount point of its own would look empty, and its overlays lost, whenever its
// volume is not mounted.
func (t *Tree) verifyDevices(r *os.Root, root, mark uint64) *MarkerError {
	if mark != root && !t.oneMount(r, markerFile) {
		return t.unusable(observe.MarkerUnreadable, "%s is on another device than the directory: mount one volume for the whole tree", markerFile)
	}
	for _, d := range subdirs() {
		fi, err := r.Lstat(d)
		switch {
		case errors.Is(err, fs.ErrNotExist): // made when it is needed
		case err != nil:
			return t.unusable(observe.MarkerUnreadable, "stat %s: %v", d, cause(err))
		case !fi.IsDir():
			return t.unusable(observe.MarkerUnreadable, "%s is no directory: the tree must not be spread by links", d)
		case t.device(d, fi) != root && !t.oneMount(r, d):
			return t.unusable(observe.MarkerUnreadable, "%s is on another device than the marker: mount one volume for the whole tree", d)
		}
	}
	if !t.home.CompareAndSwap(nil, &root) && *t.home.Load() != root {
		return t.unusable(observe.MarkerUnreadable, "it is on another device than when the agent started: if that is meant, restart the agent")
	}
	return nil
}

// InitMarker makes a new tree in the root: the directories, then the marker. It
// refuses a root that holds anything but empty directories of a tree (left by
// an interrupted call) or a file system's lost+found.
func (t *Tree) InitMarker() error {
	r, err := t.openRoot()
	if err != nil {
		return err
	}
	defer r.Close()
	empty, err := isEmpty(r)
	if err != nil {
		return fmt.Errorf("initialise image tree %s: %w", t.root, err)
	}
	if !empty {
		return fmt.Errorf("initialise image tree %s: the directory is not empty: if its content is no tree of ours, choose another directory", t.root)
	}
	for _, d := range subdirs() {
		if err := r.Mkdir(d, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("initialise image tree %s: %w", t.root, err)
		}
		if err := t.step("made " + d); err != nil {
			return err
		}
	}
	data, err := json.Marshal(marker{Version: markerVersion, Host: t.host})
	if err != nil {
		return err
	}
	if err := t.publish(r, markerFile, markerMode, content(data)); err != nil {
		return fmt.Errorf("initialise image tree %s: %w", t.root, err)
	}
	return nil
}

// isEmpty tells whether a root holds nothing that anybody could miss.
func isEmpty(r *os.Root) (bool, error) {
	names, err := readNames(r, ".")
	if err != nil {
		return false, err
	}
	for _, name := range names {
		switch name {
		case "lost+found", partName(markerFile):
			continue
		case baseDir, diskDir, seedDir, consoleDir:
			fi, err := r.Lstat(name)
			if err != nil || !fi.IsDir() {
				return false, err
			}
			inside, err := readNames(r, name)
			if err != nil || len(inside) > 0 {
				return false, err
			}
		default:
			return false, nil
		}
	}
	return true, nil
}
