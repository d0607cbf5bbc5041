package source

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// watch keeps file events coming for whatever directory is at a path, and for
// some beneath it. Events only ever mean "read it again", so they are not
// looked at.
type watch struct {
	dir     string
	log     *slog.Logger
	open    func() (*fsnotify.Watcher, error)
	signal  chan struct{}       // holds at most one: some events came
	events  *events             // nil when there is none
	ids     map[string]identity // by path: the directories that are watched
	unusual bool                // the log says that events are not available
}

func newWatch(dir string, log *slog.Logger, open func() (*fsnotify.Watcher, error)) *watch {
	return &watch{dir: dir, log: log, open: open, signal: make(chan struct{}, 1), ids: map[string]identity{}}
}

// follow sees to it that the directories now at the path, and at those
// beneath it, are the ones watched. It tells whether events can be relied on.
func (w *watch) follow(beneath []string) bool {
	if w.events != nil && w.events.broken.Load() {
		w.close()
	}
	if w.events == nil {
		fsw, err := w.open()
		if err != nil {
			w.unavailable(w.dir, err)
			return false
		}
		w.events = newEvents(fsw, w.signal, w.log)
	}
	for path := range w.ids {
		if path != w.dir && !slices.Contains(beneath, path) {
			w.forget(path)
		}
	}
	if err := w.see(w.dir); err != nil {
		if !errors.Is(err, errNowhere) {
			w.close()
			w.unavailable(w.dir, err)
		}
		return false
	}
	for _, path := range beneath {
		// One that is gone is no loss: the one above tells of its return.
		if err := w.see(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.unavailable(path, err)
			return false
		}
	}
	w.available()
	return true
}

// errNowhere stands for a path at which there is nothing to look at.
var errNowhere = errors.New("not to be found")

// see has the directory at path watched.
func (w *watch) see(path string) error {
	// Identified before it is watched: should another take its place in
	// between, the next call sees the difference.
	id, err := identify(path)
	if err != nil {
		w.forget(path)
		return fmt.Errorf("%w: %w", errNowhere, err)
	}
	fsw := w.events.fsw
	if was, watched := w.ids[path]; watched && id == was && slices.Contains(fsw.WatchList(), path) {
		return nil
	}
	w.forget(path)
	if err := fsw.Add(path); err != nil {
		return err
	}
	w.ids[path] = id
	return nil
}

// forget ends the watch of a path. It may be on a directory that is no longer
// there, or on none; that there may be nothing to remove is as good.
func (w *watch) forget(path string) {
	delete(w.ids, path)
	_ = w.events.fsw.Remove(path)
}

// covers tells whether all these paths are watched.
func (w *watch) covers(beneath []string) bool {
	for _, path := range beneath {
		if _, watched := w.ids[path]; !watched {
			return false
		}
	}
	return true
}

func (w *watch) close() {
	if w.events != nil {
		w.events.close()
		w.events = nil
		clear(w.ids)
	}
}

func (w *watch) unavailable(dir string, err error) {
	if w.unusual || errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.unusual = true
	w.log.Warn("no file events for the spec directory: it is read at short intervals instead",
		"dir", dir, "error", err, "remedy", remedy(err))
}

func (w *watch) available() {
	if w.unusual {
		w.unusual = false
		w.log.Info("file events for the spec directory are back", "dir", w.dir)
	}
}

// remedy translates the errors of inotify_init(2) and inotify_add_watch(2).
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "raise sysctl fs.inotify.max_user_instances, or the agent's limit of open files"
	case errors.Is(err, syscall.ENOSPC):
		return "raise sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.ENFILE):
		return "raise sysctl fs.file-max"
	default:
		return "see that the agent's user can read the directory"
	}
}

// events drains an fsnotify watcher at all times: it holds its lock while it
// hands over some errors, so that one who calls it must not be the one who
// drains it.
type events struct {
	fsw    *fsnotify.Watcher
	broken atomic.Bool
	ended  chan struct{}
}

func newEvents(fsw *fsnotify.Watcher, signal chan<- struct{}, log *slog.Logger) *events {
	e := &events{fsw: fsw, ended: make(chan struct{})}
	go e.drain(signal, log)
	return e
}

func (e *events) drain(signal chan<- struct{}, log *slog.Logger) {
	defer close(e.ended)
	for {
		select {
		case _, ok := <-e.fsw.Events:
			if !ok {
				return
			}
		case err, ok := <-e.fsw.Errors:
			if !ok {
				return
			}
			e.failed(err, log)
		}
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// failed notes an error of the watcher. Lost events need no more than the
// read that every event brings; after anything else the watcher is replaced.
func (e *events) failed(err error, log *slog.Logger) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		log.Info("file events were lost: the spec directory is read again")
		return
	}
	if !e.broken.Swap(true) {
		log.Warn("file events broke off: they are set up anew", "error", err)
	}
}

func (e *events) close() {
	e.fsw.Close()
	<-e.ended
}
