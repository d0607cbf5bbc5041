package doc

import (
	"fmt"
	"strings"
)

// Bounds on a document's shape. The TOML library recurses once per nested
// array and needs time and memory that grow with the square of a dotted key's
// length, so both are checked before it sees the text.
const (
	maxDepth    = 16    // nested arrays and inline tables
	maxKeyParts = 8     // of one dotted key
	maxPath     = 512   // bytes of one key's full path
	maxEntries  = 20000 // keys, tables and array elements
)

// scanner finds where the keys of a TOML text are. It is tolerant: text that
// is not TOML gives some index and neither a panic nor a loop, because the
// library that decodes the text is the judge of it.
type scanner struct {
	text   string
	pos    int
	index  map[string]int // byte offset by path
	arrays map[string]int // number of elements, by path, of arrays of tables
	seen   int            // entries so far
	fault  error          // a bound that was passed, at pos
}

// scan indexes text by key path. A non-nil error says which bound the text
// passes, at the offset given.
func scan(text string) (index map[string]int, offset int, err error) {
	s := &scanner{text: text, index: map[string]int{}, arrays: map[string]int{}}
	s.document()
	return s.index, s.pos, s.fault
}

func (s *scanner) document() {
	table := ""
	for s.space(); s.more(); s.space() {
		if s.text[s.pos] == '[' {
			table = s.header()
		} else {
			s.pair(table, 0)
		}
		s.line()
	}
}

// header reads "[a.b" or "[[a.b" and gives the path that keys below it have.
func (s *scanner) header() string {
	array := s.accept("[[")
	if !array {
		s.accept("[")
	}
	path := ""
	parts := s.key()
	for i, p := range parts {
		path = s.enter(join(path, p.text), p.at)
		if n := s.arrays[path]; n > 0 && i < len(parts)-1 {
			path = element(path, n-1)
		}
	}
	if array && len(parts) > 0 {
		n := s.arrays[path]
		s.arrays[path] = n + 1
		path = s.enter(element(path, n), parts[len(parts)-1].at)
	}
	return path
}

// pair reads "a.b = value" below table.
func (s *scanner) pair(table string, depth int) {
	path := table
	for _, p := range s.key() {
		path = s.enter(join(path, p.text), p.at)
	}
	s.blanks()
	if s.accept("=") {
		s.blanks()
		s.value(path, depth)
	}
}

func (s *scanner) value(path string, depth int) {
	switch {
	case s.accept(`"""`):
		s.closing(`"""`, true)
	case s.accept("'''"):
		s.closing("'''", false)
	case s.accept(`"`):
		s.closing(`"`, true)
	case s.accept("'"):
		s.closing("'", false)
	case s.accept("["):
		s.array(path, depth)
	case s.accept("{"):
		s.inline(path, depth)
	default:
		s.until(",]}#\n")
	}
}

func (s *scanner) array(path string, depth int) {
	if depth >= maxDepth {
		s.fail("nested more than %d deep", maxDepth)
	}
	for i := 0; ; {
		s.space()
		switch {
		case !s.more() || s.accept("]"):
			return
		case s.accept(","):
		default:
			before := s.pos
			s.value(s.enter(element(path, i), s.pos), depth+1)
			s.advance(before)
			i++
		}
	}
}

func (s *scanner) inline(path string, depth int) {
	if depth >= maxDepth {
		s.fail("nested more than %d deep", maxDepth)
	}
	for {
		s.space()
		switch {
		case !s.more() || s.accept("}"):
			return
		case s.accept(","):
		default:
			before := s.pos
			s.pair(path, depth+1)
			s.advance(before)
		}
	}
}

// enter notes where path was first seen and gives path back.
func (s *scanner) enter(path string, at int) string {
	s.seen++
	switch {
	case s.seen > maxEntries:
		s.fail("more than %d keys and values", maxEntries)
	case len(path) > maxPath:
		s.fail("a key of more than %d bytes", maxPath)
	default:
		if _, ok := s.index[path]; !ok {
			s.index[path] = at
		}
	}
	return path
}

// fail records the first bound that was passed and ends the scan.
func (s *scanner) fail(format string, args ...any) {
	if s.fault == nil {
		s.fault = fmt.Errorf(format, args...)
		s.text = s.text[:s.pos]
	}
}

// advance makes sure that something was read since before, so that text that
// is not TOML ends the scan as well.
func (s *scanner) advance(before int) {
	if s.pos == before && s.more() {
		s.pos++
	}
}

func (s *scanner) more() bool { return s.pos < len(s.text) }

func (s *scanner) accept(token string) bool {
	ok := strings.HasPrefix(s.text[s.pos:], token)
	if ok {
		s.pos += len(token)
	}
	return ok
}
