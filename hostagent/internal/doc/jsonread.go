package doc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// jsonReader makes values of a text that is known to be JSON, and notes where
// its keys are.
type jsonReader struct {
	text    string
	pos     int
	index   map[string]int // byte offset by path
	seen    int            // entries so far
	stopped bool           // a bound was passed: nothing more is read
	faults  []jsonFault
}

// jsonFault is something that is JSON and can not be taken all the same.
type jsonFault struct {
	at            int
	path, message string
}

// value reads the value at path; after a bound was passed, nil.
func (r *jsonReader) value(path string, depth int) any {
	r.space()
	switch c := r.text[r.pos]; {
	case depth > maxDepth:
		r.stop(path, fmt.Sprintf("nested more than %d deep", maxDepth))
		return nil
	case c == '{':
		return r.object(path, depth)
	case c == '[':
		return r.array(path, depth)
	case c == '"':
		return r.str(path)
	case c == 't' || c == 'f' || c == 'n':
		return r.word()
	}
	start := r.pos
	for r.pos < len(r.text) && strings.IndexByte("+-.0123456789eE", r.text[r.pos]) >= 0 {
		r.pos++
	}
	return json.Number(r.text[start:r.pos])
}

func (r *jsonReader) object(path string, depth int) map[string]any {
	out := map[string]any{}
	for r.next('}') {
		at := r.pos
		key := r.str(path)
		member := join(path, key)
		if _, twice := out[key]; twice && len(r.faults) < maxFaults {
			line := newLines(r.text[:at]).at(r.index[member]).Line
			r.fault(at, member, fmt.Sprintf("is given twice in one object, first in line %d", line))
		}
		r.enter(member, at)
		r.space()
		r.pos++ // the colon
		out[key] = r.value(member, depth+1)
	}
	return out
}

func (r *jsonReader) array(path string, depth int) []any {
	out := []any{}
	for r.next(']') {
		member := element(path, len(out))
		r.enter(member, r.pos)
		out = append(out, r.value(member, depth+1))
	}
	return out
}

// next reads the bracket or comma before a member and tells whether there is
// one; if not, it reads the bracket that ends them.
func (r *jsonReader) next(end byte) bool {
	r.space()
	if r.stopped {
		return false
	}
	ended := r.text[r.pos] == end
	r.pos++
	if ended {
		return false
	}
	r.space()
	if r.text[r.pos] == end { // of an empty one
		r.pos++
		return false
	}
	return true
}

// str reads a string.
func (r *jsonReader) str(path string) string {
	start := r.pos
	for r.pos++; r.text[r.pos] != '"'; r.pos++ {
		if r.text[r.pos] == '\\' {
			r.pos++
		}
	}
	r.pos++
	raw := r.text[start:r.pos]
	if !strings.Contains(raw, `\`) {
		return raw[1 : len(raw)-1]
	}
	if loneSurrogate(raw) {
		r.fault(start, path, `has half of a surrogate pair (\ud800 to \udfff), which stands for no character`)
	}
	var out string
	_ = json.Unmarshal([]byte(raw), &out) // it is a JSON string
	return out
}

func (r *jsonReader) word() any {
	start := r.pos
	for r.pos < len(r.text) && r.text[r.pos] >= 'a' && r.text[r.pos] <= 'z' {
		r.pos++
	}
	switch r.text[start:r.pos] {
	case "true":
		return true
	case "false":
		return false
	}
	return nil
}

func (r *jsonReader) space() {
	for r.pos < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.pos]) >= 0 {
		r.pos++
	}
}

// enter notes where path is.
func (r *jsonReader) enter(path string, at int) {
	r.seen++
	switch {
	case r.seen > maxJSONEntries:
		r.stop(path, fmt.Sprintf("more than %d keys and values", maxJSONEntries))
	case len(path) > maxPath:
		r.stop(path, fmt.Sprintf("a key of more than %d bytes", maxPath))
	default:
		if _, known := r.index[path]; !known {
			r.index[path] = at
		}
	}
}

// fault notes a problem, as far as there is room.
func (r *jsonReader) fault(at int, path, message string) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, jsonFault{at, path, message})
	}
}

// stop ends the reading: what a bound leaves out is not looked at.
func (r *jsonReader) stop(path, message string) {
	if !r.stopped {
		r.faults = append(r.faults, jsonFault{r.pos, path, message})
	}
	r.stopped = true
}

// loneSurrogate tells whether the escapes of a string have half of a pair,
// which encoding/json would replace by U+FFFD.
func loneSurrogate(raw string) bool {
	high := false
	for i := 0; i < len(raw); {
		unit, n := rune(0), 1
		if raw[i] == '\\' {
			n = 2
			if raw[i+1] == 'u' {
				v, _ := strconv.ParseUint(raw[i+2:i+6], 16, 16)
				unit, n = rune(v), 6
			}
		}
		surrogate := utf16.IsSurrogate(unit)
		low := surrogate && unit >= 0xdc00
		if low != high {
			return true
		}
		high = surrogate && !low
		i += n
	}
	return high
}
