package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Open locks and reads the state directory of a host, made with mode 0700 if
// it is missing. An entry that can not be used is moved to the directory
// "rejected" and known as lost; so are all that are another host id's. What is
// reported is durable. An error means that the directory can not be used at
// all: it is not a directory, not writable, or another agent has it open.
func Open(dir, hostID string) (*Store, Content, error) {
	return open(reader{dir, hostID, os.Geteuid(), maxFile}, func(string) error { return nil })
}

// Peek reads what Open would find and changes nothing; entries may be saved
// meanwhile. A missing directory is empty. Entries have to be owned by the
// directory's owner, whoever looks.
func Peek(dir, hostID string) (Content, error) {
	fi, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, nil
	}
	var f found
	if err == nil {
		f, err = reader{dir, hostID, owner(fi), maxFile}.read()
	}
	if err != nil {
		return Content{}, fmt.Errorf("read state directory %s: %w", dir, err)
	}
	return f.content(func(b bad) string { return fmt.Sprintf("state entry %s is not used: %s", b.place, b.why) }), nil
}

func open(r reader, step func(string) error) (*Store, Content, error) {
	s := &Store{reader: r, step: step}
	c, err := s.start()
	if err != nil {
		s.Close()
		return nil, Content{}, fmt.Errorf("open state directory %s: %w", r.dir, err)
	}
	return s, c, nil
}

func (s *Store) start() (Content, error) {
	if s.host == "" || !utf8.ValidString(s.host) {
		return Content{}, fmt.Errorf("host id %q is not a text: set one", s.host)
	}
	if err := s.prepare(); err != nil {
		return Content{}, err
	}
	f, err := s.read()
	if err != nil {
		return Content{}, err
	}
	rejected, temps, err := s.asides()
	if err != nil {
		return Content{}, err
	}
	if n := len(rejected); n > 0 {
		s.next = rejected[n-1].number + 1
	}
	for _, path := range append(f.temps, temps...) {
		os.Remove(path) // takes room and nothing else if it stays
	}
	problem := s.migrate(&f)
	c := f.content(s.setAside)
	if problem != "" {
		c.Problems = append(c.Problems, problem)
	}
	s.prune()
	return c, nil
}

// prepare makes and locks the directory. What an agent that was killed saw in
// it is made durable before this one acts on it.
func (s *Store) prepare() error {
	_, err := os.Stat(s.dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s.unusable(".", err)
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	for _, name := range append(subDirs(), ".") {
		dir := filepath.Join(s.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return s.unusable(name, err)
		}
		if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() && name != "." {
			return s.unusable(name, errors.Join(err, unix.ENOTDIR))
		}
		if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return s.unusable(name, err)
		}
		if err := syncDir(dir); err != nil {
			return s.unusable(name, err)
		}
	}
	if fresh {
		return syncDir(filepath.Dir(filepath.Clean(s.dir)))
	}
	return nil
}

func subDirs() []string {
	names := []string{rejectedDir}
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return names
}

func (s *Store) unusable(sub string, err error) error {
	return fmt.Errorf("%s: %w: make it a directory that uid %d can write, on a file system that is not read-only", sub, cause(err), s.uid)
}

func (s *Store) takeLock() error {
	path := filepath.Join(s.dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return s.unusable(".", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		s.lock = f
		return nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w: another agent uses it: stop that one, or give each a state directory of its own", path, err)
	}
	return fmt.Errorf("lock %s: %w: use a file system that has locks", path, err)
}
