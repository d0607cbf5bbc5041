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
	entries  map[string]Entry
	files    map[string]parsed
	ignored  []string
	indirect bool
}

// read reads the whole directory. An error means that the directory is in
// doubt; troubles with single files are in their entries.
func (d *Dir) read() (scan, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		d.settle.missed()
		return scan{}, doubt(err)
	}
	defer root.Close()
	id, err := identifyRoot(root)
	if err != nil {
		return scan{}, doubt(err)
	}
	names, err := list(root)
	if err != nil {
		return scan{}, err
	}
	if err := d.settle.check(id, names); err != nil {
		return scan{}, err
	}
	result := d.readFiles(tree{dir: d.dir, root: root}, names)
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
func list(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, doubt(err)
	}
	defer f.Close()
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
	result := scan{entries: map[string]Entry{}, files: map[string]parsed{}}
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
			p = d.parse(t, name, file)
		}
		if len(p.problems) > 0 && t.gone(file) {
			continue // removed since the directory was listed
		}
		result.files[file] = p
		result.entries[name] = p.entry(name, t.path(file), d.entries[name])
		result.indirect = result.indirect || p.indirect
	}
	return result
}

func (s *scan) ignore(problem string) {
	if len(s.ignored) < maxIgnored {
		s.ignored = append(s.ignored, problem)
	}
}
