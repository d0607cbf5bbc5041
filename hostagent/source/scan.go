package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

const (
	maxNames   = 20_000 // entries of the directory, of whatever kind
	maxIgnored = 100    // messages in Snapshot.Ignored
)

// scan is what one complete read found.
type scan struct {
	entries map[string]Entry
	files   map[string]parsed
	ignored []string
	reach   reach
	quiet   *quiet
	id      identity
}

// read reads the whole directory. An error means that the directory is in
// doubt; troubles with single files are in their entries.
func (d *Dir) read(q *quiet) (scan, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		d.settle.missed()
		return scan{}, doubt(err)
	}
	defer root.Close()
	at, err := root.Open(".")
	if err != nil {
		return scan{}, doubt(err)
	}
	defer at.Close()
	id, err := identifyOpen(at)
	if err != nil {
		return scan{}, doubt(err)
	}
	names, err := list(at)
	if err != nil {
		return scan{}, err
	}
	if err := d.settle.check(id, names, len(d.entries) > 0); err != nil {
		return scan{}, err
	}
	result := d.readFiles(tree{dir: d.dir, root: root, at: at, quiet: q}, names)
	result.id = id
	// Replaced while it was read, what was read is of the old one.
	if after, err := identify(d.dir); err != nil {
		return scan{}, doubt(err)
	} else if after != id {
		return scan{}, errReplaced
	}
	return result, nil
}

func doubt(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("the directory does not exist: create it, or mount what holds it")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("the agent's user may not read the directory: fix its owner, group or mode")
	default:
		return fmt.Errorf("%w: see that it is a directory that the agent's user can read", err)
	}
}

// list gives all names of the directory, sorted. A list that may be short is
// an error.
func list(f *os.File) ([]string, error) {
	var names []string
	for {
		some, err := f.Readdirnames(1024)
		names = append(names, some...)
		if len(names) > maxNames {
			return nil, fmt.Errorf("the directory has more than %d entries: move out what is no spec", maxNames)
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, doubt(err)
		}
	}
}

func (d *Dir) readFiles(t tree, names []string) scan {
	result := scan{entries: map[string]Entry{}, files: map[string]parsed{}, quiet: t.quiet}
	for _, file := range names {
		name, problem := proxyName(file)
		if problem != "" {
			result.ignore(problem)
		}
		if name == "" {
			continue
		}
		p, known := d.files[file]
		if !known || !t.unchanged(file, p) {
			p = d.parse(t, name, file, p)
		}
		if len(p.problems) > 0 && t.gone(file) {
			continue // removed since the directory was listed
		}
		result.files[file] = p
		result.reach.add(p.reach)
		if e, listed := d.entry(p, name, t.path(file)); listed {
			result.entries[name] = e
		}
	}
	return result
}

// entry is what the read says about a proxy. While its file is being written
// that is what was said last; of a name that a complete read did not list, it
// is nothing, as before. The first read says what it is: nobody is to take a
// spec from before a restart for the one that is there now.
func (d *Dir) entry(p parsed, name, file string) (e Entry, listed bool) {
	last, known := d.entries[name]
	if !p.busy.IsZero() && d.now().Sub(p.busy) < maxBusy*d.debounce && d.seq > 0 {
		return last, known
	}
	return p.entry(name, file, last), true
}

func (s *scan) ignore(problem string) {
	if len(s.ignored) < maxIgnored {
		s.ignored = append(s.ignored, problem)
	}
}
