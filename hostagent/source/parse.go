package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const (
	maxSpec    = 1 << 20  // bytes of a spec file
	maxFile    = 32 << 20 // bytes of a file that a spec names
	maxProblem = 1000     // bytes of a decoder's error
)

// parsed is a spec file as last read, with what tells that it, and the files
// it names, are still the same.
type parsed struct {
	stamp    stamp
	named    map[string]stamp // files that the decoder opened
	firm     bool             // the stamps can be relied on
	indirect bool
	spec     *spec.Spec // nil when there are problems
	hash     spec.Hash
	problems []string
}

// unchanged tells whether reading file again would give p again.
func (t tree) unchanged(file string, p parsed) bool {
	if !p.firm || t.stamp(file) != p.stamp {
		return false
	}
	for rel, s := range p.named {
		if t.stamp(rel) != s {
			return false
		}
	}
	return true
}

// parse reads and decodes file. A file that could not be read is tried again
// with each read of the directory, without a look at its stamp.
func (d *Dir) parse(t tree, name, file string) parsed {
	start := d.now()
	p := parsed{named: map[string]stamp{}, indirect: t.indirect(file)}
	data, st, err := t.read(file, maxSpec)
	if err != nil {
		p.problems = []string{fmt.Sprintf("%s: %v", t.path(file), err)}
		return p
	}
	p.stamp, p.firm = st, st.firm(start)
	open := func(rel string) ([]byte, error) {
		data, st, err := t.read(rel, maxFile)
		p.named[rel] = st
		p.firm = p.firm && st.firm(start)
		p.indirect = p.indirect || t.indirect(rel)
		if err != nil {
			return nil, fmt.Errorf("file %.200q of %s: %w", rel, t.dir, err)
		}
		return data, nil
	}
	s, err := d.decode(name, t.path(file), data, open)
	if err != nil {
		p.problems = problems(err)
		return p
	}
	p.spec, p.hash = &s, s.Hash()
	return p
}

// entry is what p says about the proxy, given what was said last.
func (p parsed) entry(name, file string, last Entry) Entry {
	if len(p.problems) > 0 {
		return Entry{Name: name, File: file, Spec: last.Spec, Hash: last.Hash, Warnings: last.Warnings, Problems: p.problems}
	}
	return Entry{Name: name, File: file, Spec: p.spec, Hash: p.hash, Warnings: p.spec.Warnings()}
}

// problems gives a decoder's error line by line. spec.Problems bounds itself;
// other errors are cut.
func problems(err error) []string {
	var ps spec.Problems
	if errors.As(err, &ps) {
		return ps.Lines()
	}
	text := err.Error()
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return []string{text}
}
