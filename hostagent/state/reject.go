package state

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of what is kept in the directory of rejected files: room for what a
// start with a wrong host id moves there.
const (
	maxRejected      = 1000
	maxRejectedBytes = 256 << 20
)

// asidePattern has the names in the directory of rejected files.
var asidePattern = regexp.MustCompile(`^[a-z]+-[A-Za-z0-9][A-Za-z0-9_.-]*\.json\.([0-9]{1,15})$`)

// Reject tells that the caller could not use an entry's body, and why: the
// entry is moved aside and known as lost, like any bad one. problem is for
// people; also if that failed, and the entry is found again by the next Open.
func (s *Store) Reject(e Entry, why error) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := e.place().check()
	if s.lock == nil {
		err = errClosed
	}
	if err != nil {
		return fmt.Sprintf("state entry %q is not used: %v; it was not moved aside: %v", e.place(), why, err)
	}
	defer s.prune()
	return s.setAside(bad{place: e.place(), why: fmt.Sprint(why)})
}

// aside is where the next rejected file goes.
func (s *Store) aside(p place) string {
	n := s.next
	s.next++
	return filepath.Join(s.dir, rejectedDir, fmt.Sprintf("%s-%s%s.%d", p.kind, p.key, suffix, n))
}

// setAside moves a bad entry aside, and says so.
func (s *Store) setAside(b bad) string {
	path := s.path(b.place)
	if b.old {
		path = filepath.Join(s.dir, oldName)
	}
	aside := s.aside(b.place)
	what := fmt.Sprintf("%s is not used: %s", path, clip(b.why))
	said := what + "; moved to " + aside
	if err := s.replace(b, path, aside, said); err != nil {
		return fmt.Sprintf("%s; moving it to %s failed: %v", what, aside, err)
	}
	return said
}

// replace moves a bad entry aside and puts one in its place that says it was
// lost. At no time is there nothing: an entry that vanished would forbid
// nothing after a crash. Where the file system can not do that (NFS), the bad
// one stays where it is.
func (s *Store) replace(b bad, path, aside, said string) error {
	data, err := encode(envelope{Host: s.host, Kind: b.kind, Key: b.key, Lost: said})
	if err != nil {
		return err
	}
	if b.old {
		if err := s.write(s.path(b.place), data); err != nil {
			return err
		}
		return s.moveOld(aside)
	}
	if err := s.write(aside, data); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	if err := s.step("exchanged"); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(path)), syncDir(filepath.Dir(aside)))
}

// rejected is a file that was moved aside.
type rejected struct {
	path   string
	number uint64
	size   int64 // bytes
}

// asides lists what was moved aside, by number, and left-over temporary files.
func (s *Store) asides() (all []rejected, temps []string, err error) {
	dir := filepath.Join(s.dir, rejectedDir)
	files, err := list(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range files {
		path := filepath.Join(dir, d.Name())
		if m := asidePattern.FindStringSubmatch(d.Name()); m != nil {
			fi, err := d.Info()
			if err != nil {
				return nil, nil, err
			}
			n, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, rejected{path, n, fi.Size()})
		} else if tempPattern.MatchString(d.Name()) && d.Type().IsRegular() {
			temps = append(temps, path)
		}
	}
	slices.SortFunc(all, func(a, b rejected) int { return cmp.Compare(a.number, b.number) })
	return all, temps, nil
}

// prune removes the oldest of too many rejected files; the newest stays, and a
// directory that is not empty. It is no error if that fails: the next call
// tries again.
func (s *Store) prune() {
	all, _, err := s.asides()
	if err != nil {
		return
	}
	bytes := int64(0)
	for i, r := range slices.Backward(all) {
		bytes += r.size
		if kept := len(all) - 1 - i; kept >= maxRejected || kept > 0 && bytes > maxRejectedBytes {
			os.Remove(r.path)
		}
	}
}
