package doc

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a document: 1-based line and column, the column in
// characters (a tab is one).
type Pos struct{ Line, Column int }

// Locator finds the place of a key's path in the document's text.
type Locator func(path string) (Pos, bool)

// join appends a key to a path: "images" + "debian-13" gives
// "images.debian-13". A key that TOML would not take bare is quoted, which
// keeps paths unambiguous and free of control characters.
func join(path, key string) string {
	if !bare(key) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// element appends an array index to a path: "network" + 0 gives "network[0]".
func element(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// bare tells whether key is a TOML bare key.
func bare(key string) bool {
	for i := range len(key) {
		if !bareChar(key[i]) {
			return false
		}
	}
	return key != ""
}

func bareChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// lines turns byte offsets of a text into places.
type lines struct {
	text   string
	starts []int // offset of each line's first byte
}

func newLines(text string) lines {
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return lines{text: text, starts: starts}
}

// at gives the place of a byte offset; one outside the text gives its nearest
// end.
func (l lines) at(offset int) Pos {
	offset = min(max(offset, 0), len(l.text))
	n := sort.SearchInts(l.starts, offset+1)
	before := l.text[l.starts[n-1]:offset]
	return Pos{Line: n, Column: 1 + utf8.RuneCountInString(strings.TrimRight(before, "\r"))}
}
