package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	suffix      = ".json"
	lockName    = ".lock"
	rejectedDir = "rejected"
	maxFile     = 48 << 20 // bytes; a spec may hold 32 MiB of user data in base64
)

// known are names in a state directory that are no kinds and need no word: our
// own, that of the directory seeds are staged in, what earlier builds moved
// aside, what mkfs makes.
var known = [...]string{lockName, rejectedDir, oldName, oldName + ".rejected", "staging", "lost+found"}

// tempPattern has the names under which files are written.
var tempPattern = regexp.MustCompile(`^\.[A-Za-z0-9][A-Za-z0-9_.-]*\.json[.0-9]*[0-9]$`)

// reader looks at a state directory and changes nothing.
type reader struct {
	dir, host string
	uid       int // who owns what is believed
	limit     int // bytes in a file
}

// found is what a reader found.
type found struct {
	entries []Entry
	bad     []bad
	foreign []string // names that are not ours
	temps   []string // paths of files that a crash left
	migrate bool     // an entry came from the old document
	stale   bool     // the old document is there beside what came from it
}

// bad is an entry that can not be used.
type bad struct {
	place
	why  string
	told bool // why is the whole of what people are told: it was moved aside before
	old  bool // it is the old document
}

func (f *found) has(p place) bool {
	return slices.ContainsFunc(f.entries, func(e Entry) bool { return e.place() == p }) ||
		slices.ContainsFunc(f.bad, func(b bad) bool { return b.place == p })
}

// content makes a Content; aside does something about a bad entry and says so.
func (f *found) content(aside func(bad) string) Content {
	c := Content{Entries: f.entries}
	var lost []place
	for _, b := range f.bad {
		lost = append(lost, b.place)
		if b.told {
			c.Problems = append(c.Problems, b.why)
		} else {
			c.Problems = append(c.Problems, aside(b))
		}
	}
	if n := len(f.foreign); n > 0 {
		const most = 10
		c.Problems = append(c.Problems, fmt.Sprintf("%d names in the state directory are not the agent's and are left alone: %q", n, f.foreign[:min(n, most)]))
	}
	c.finish(lost)
	return c
}

// path is where an entry is kept.
func (r reader) path(p place) string {
	return filepath.Join(r.dir, string(p.kind), p.key+suffix)
}

// read reads the whole directory; one that is missing is empty.
func (r reader) read() (found, error) {
	var f found
	files, err := list(r.dir + "/.") // this one may be a link
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	var old fs.DirEntry
	for _, d := range files {
		switch name := d.Name(); {
		case slices.Contains(kinds[:], Kind(name)):
			if err := r.readKind(Kind(name), &f); err != nil {
				return f, err
			}
		case name == oldName:
			old = d
		case !slices.Contains(known[:], name):
			f.foreign = append(f.foreign, name)
		}
	}
	if err == nil && old != nil {
		err = r.readOld(&f, old.Type())
	}
	return f, err
}

func (r reader) readKind(kind Kind, f *found) error {
	files, err := list(filepath.Join(r.dir, string(kind)))
	for _, d := range files {
		key, ours := strings.CutSuffix(d.Name(), suffix)
		rel := filepath.Join(string(kind), d.Name())
		switch {
		case ours && checkKey(key) == nil:
			if err := r.readEntry(place{kind, key}, d.Type(), f); err != nil {
				return err
			}
		case tempPattern.MatchString(d.Name()) && d.Type().IsRegular():
			f.temps = append(f.temps, filepath.Join(r.dir, rel))
		default:
			f.foreign = append(f.foreign, rel)
		}
	}
	return err
}

// readEntry adds an entry to what is good or bad. An error is not the file's.
func (r reader) readEntry(at place, mode fs.FileMode, f *found) error {
	var env envelope
	data, err := r.load(r.path(at), mode)
	if err == nil {
		env, err = decode(data)
	}
	if err == nil {
		err = env.belongs(r.host, at)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile, beneath Peek
	case exhausted(err):
		return fmt.Errorf("read %s: %w", r.path(at), err)
	case err != nil:
		f.bad = append(f.bad, bad{place: at, why: err.Error()})
	case env.Lost != "":
		f.bad = append(f.bad, bad{place: at, why: cut(env.Lost, 4000), told: true})
	default:
		f.entries = append(f.entries, Entry{at.kind, at.key, env.Body})
	}
	return nil
}
