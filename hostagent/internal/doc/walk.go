package doc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Doc is a document being walked. It is not safe for concurrent use.
type Doc struct {
	file     string
	at       Locator
	tables   []*Table
	byPath   map[string]*Table
	problems Problems
}

// New starts a walk over an already decoded document. Integers are int64 or
// json.Number; at may be nil when no places are known.
func New(file string, root map[string]any, at Locator) *Doc {
	if at == nil {
		at = func(string) (Pos, bool) { return Pos{}, false }
	}
	d := &Doc{file: file, at: at, byPath: map[string]*Table{}}
	d.table("", root)
	return d
}

// Root gives the document's top-level table.
func (d *Doc) Root() *Table { return d.tables[0] }

// Err ends the walk: it gives Problems with everything found, the keys that
// nobody asked for included, in document order; or nil.
func (d *Doc) Err() error {
	all := slices.Clone(d.problems)
	for _, t := range d.tables {
		all = append(all, t.unknown()...)
	}
	if len(all) == 0 {
		return nil
	}
	return all.sorted()
}

// Table is one table of a document. Its accessors report a value of the wrong
// type or outside its bounds as a Problem and then say ok = false, as they do
// for a key that is not there; Has tells the two apart.
type Table struct {
	doc    *Doc
	path   string
	values map[string]any
	known  map[string]string // keys that are understood; not empty: what to say instead
	broken bool              // stands for a value that is no table, which was reported
}

// table makes and remembers the Table at path.
func (d *Doc) table(path string, values map[string]any) *Table {
	t := &Table{doc: d, path: path, values: values, known: map[string]string{}}
	d.tables = append(d.tables, t)
	d.byPath[path] = t
	return t
}

// Has tells whether the table has key, whatever its value.
func (t *Table) Has(key string) bool {
	_, ok := t.values[key]
	return ok
}

// Keys gives all keys of the table, sorted. It is for tables whose keys are
// names: the caller asks for each of them and checks the name itself.
func (t *Table) Keys() []string { return slices.Sorted(maps.Keys(t.values)) }

// Refuse says what to tell a user who gives key, which is unknown but likely.
func (t *Table) Refuse(key, message string) { t.known[key] = message }

// Fail reports a problem at key, or at the table itself when key is empty or
// not there. What would follow from the table being none at all is left out.
func (t *Table) Fail(key, format string, args ...any) {
	if t.broken {
		return
	}
	t.doc.problems = append(t.doc.problems, t.problem(key, fmt.Sprintf(format, args...)))
}

// FailAt is Fail for a path that leads on from the table, as problems show it:
// "network[0].bridge".
func (t *Table) FailAt(path, message string) {
	if path != "" {
		if t.path != "" {
			path = "." + path
		}
		t.doc.problems = append(t.doc.problems, t.doc.problem(t.path+path, t.path, message))
		return
	}
	t.Fail("", "%s", message)
}

// Failed tells whether a problem of the table, or of one inside it, has been
// reported so far: what follows from it need not be told too. Unknown keys are
// found by Err only.
func (t *Table) Failed() bool {
	return slices.ContainsFunc(t.doc.problems, func(p Problem) bool {
		rest, ok := strings.CutPrefix(p.Key, t.path)
		return ok && (rest == "" || t.path == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (t *Table) problem(key, message string) Problem {
	path := t.path
	if key != "" {
		path = join(t.path, key)
	}
	return t.doc.problem(path, t.path, message)
}

// problem places a message at path, else at the enclosing table, else at the
// document's start.
func (d *Doc) problem(path, table, message string) Problem {
	pos, ok := d.at(path)
	if !ok {
		pos, ok = d.at(table)
	}
	if !ok {
		pos, _ = d.at("")
	}
	return Problem{d.file, pos.Line, pos.Column, bounded(path), bounded(message)}
}

// value looks key up and marks it as known.
func (t *Table) value(key string) (any, bool) {
	if _, ok := t.known[key]; !ok {
		t.known[key] = ""
	}
	v, ok := t.values[key]
	return v, ok
}
