package doc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown bounds how many problems of one document are printed.
const maxShown = 50

// maxText bounds one part of a printed problem, in bytes.
const maxText = 400

// Problem is one thing that is wrong with a document, at the place where it is
// wrong. It never holds a value that may be secret.
type Problem struct {
	File    string // for people: the document's name
	Line    int    // 1-based; 0 when the place is unknown
	Column  int    // 1-based, in characters
	Key     string // path of the key: "network[0].bridge"; may be empty
	Message string // what is wrong; what is allowed
}

// Error implements error: "file:line:column: key: message".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	b.WriteString(": " + p.Message)
	return b.String()
}

// Problems is everything that is wrong with a document, in document order.
type Problems []Problem

// Error implements error: one problem a line, at most 50 of them.
func (ps Problems) Error() string { return strings.Join(ps.Lines(), "\n") }

// Lines gives each problem as text. When there are more than 50, the last line
// says how many were left out.
func (ps Problems) Lines() []string {
	lines := make([]string, 0, min(len(ps), maxShown+1))
	for i, p := range ps {
		if i == maxShown {
			return append(lines, fmt.Sprintf("%s: and %d more problems", p.File, len(ps)-i))
		}
		lines = append(lines, p.Error())
	}
	return lines
}

// sorted orders by place; problems of one place keep the order they were found
// in.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}

// bounded cuts s to maxText bytes at a character's edge and says so.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
