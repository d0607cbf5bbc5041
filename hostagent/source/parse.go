package source

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	reach    reach
	busy     time.Time  // since when it, or a file it names, is being written; zero: it is not
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

// parse reads and decodes file, of which last is what was known. A file that
// could not be read is tried again with each read of the directory, without a
// look at its stamp.
func (d *Dir) parse(t tree, name, file string, last parsed) parsed {
	start := d.now()
	p := parsed{named: map[string]stamp{}, reach: t.reach(file)}
	data, st, err := t.read(file, maxSpec)
	if err != nil {
		p.writing(err, last, start)
		p.problems = []string{fmt.Sprintf("%s: %v", t.path(file), err)}
		return p
	}
	p.stamp, p.firm = st, st.firm(start)
	open := func(rel string) ([]byte, error) {
		data, st, err := t.read(rel, maxFile)
		p.named[rel] = st
		p.firm = p.firm && st.firm(start)
		p.reach.add(t.reach(rel))
		if err != nil {
			p.writing(err, last, start)
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

// writing takes note of a file that is being written.
func (p *parsed) writing(err error, last parsed, now time.Time) {
	switch {
	case !errors.Is(err, errBusy):
	case last.busy.IsZero():
		p.busy = now
	default:
		p.busy = last.busy
	}
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
