package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Store is one state directory, locked for this process until Close. It is
// safe for concurrent use.
type Store struct {
	reader
	step func(string) error // called after each step of a change; its error is that step's failure

	mu   sync.Mutex
	lock *os.File // nil: closed
	next uint64   // number of the next file moved aside
}

// errClosed: without the lock somebody else may be writing.
var errClosed = errors.New("the state directory was closed")

// Save makes the changes in their order, each atomic and durable, and stops at
// the first that fails; what was there stands then, as a rule, and after a
// crash either that or the new is there. Removing what is not there is success.
func (s *Store) Save(changes ...Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if err := s.save(c); err != nil {
			return fmt.Errorf("save state entry %q in %s: %w", c.place(), s.dir, err)
		}
	}
	return nil
}

func (s *Store) save(c Change) error {
	if s.lock == nil {
		return errClosed
	}
	if err := c.check(); err != nil {
		return err
	}
	var err error
	if c.Gone {
		err = s.remove(s.path(c.place()))
	} else {
		err = s.put(c.Entry)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: make room there", err)
	}
	return err
}

func (s *Store) put(e Entry) error {
	data, err := encode(envelope{Host: s.host, Kind: e.Kind, Key: e.Key, Body: e.Body})
	if err != nil {
		return err
	}
	if len(data) > s.limit {
		return fmt.Errorf("%d bytes as JSON, more than the limit of %d: make it smaller", len(data), s.limit)
	}
	return s.write(s.path(e.place()), data)
}

// write puts a file in place: a temporary file beside it, fsync, rename, fsync
// of the directory, which renameio leaves out.
func (s *Store) write(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Cleanup() // of a failure; Open sweeps what it can not remove
	return s.steps(
		step{"created", func() error { return nil }},
		step{"written", func() error { _, err := f.Write(data); return err }},
		step{"renamed", f.CloseAtomicallyReplace}, // syncs the file first
		step{"published", func() error { return syncDir(dir) }},
	)
}

// remove removes a file. It is synced even if it was gone: that may not be
// durable yet.
func (s *Store) remove(path string) error {
	return s.steps(
		step{"removed", func() error {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}},
		step{"published", func() error { return syncDir(filepath.Dir(path)) }},
	)
}

type step struct {
	name string
	do   func() error
}

func (s *Store) steps(all ...step) error {
	for _, st := range all {
		if err := st.do(); err != nil {
			return err
		}
		if err := s.step(st.name); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes what happened to names in a directory outlast a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close lets another Open have the directory. Save fails from then on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	// By hand: a child that was forked this moment has the file open too.
	err := errors.Join(unix.Flock(int(s.lock.Fd()), unix.LOCK_UN), s.lock.Close())
	s.lock = nil
	return err
}
