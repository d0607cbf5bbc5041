package doc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds on a JSON document's shape, beside maxDepth and maxPath. Machines
// write JSON, and one document may list many proxies.
const (
	maxJSONEntries = 100000 // keys and array elements
	maxFaults      = 50     // problems that are reported
)

// ParseJSON reads a JSON document (RFC 8259) of at most `most` bytes that is one
// object; file is its name for people. Text that is not that, and an object
// with a key twice, which encoding/json lets pass, gives Problems with the
// places.
//
// It takes no text for another: bytes that are not UTF-8 and escapes of half a
// surrogate pair are problems, not U+FFFD, and numbers stay json.Number.
func ParseJSON(file string, data []byte, most int) (*Doc, error) {
	text := string(data)
	if len(text) > most {
		return nil, Problems{{file, 1, 1, "", fmt.Sprintf("%d bytes long; at most %d are read", len(text), most)}}
	}
	ls := newLines(text)
	problem := func(offset int, key, message string) Problem {
		at := ls.at(offset)
		return Problem{file, at.Line, at.Column, bounded(key), bounded(message)}
	}
	if at := firstInvalid(text); at >= 0 {
		return nil, Problems{problem(at, "", fmt.Sprintf("byte 0x%02x is not UTF-8; JSON is UTF-8 text (bytes of another kind can be given in base64)", text[at]))}
	}
	if at, message := notJSON(text); message != "" {
		return nil, Problems{problem(at, "", message)}
	}
	r := jsonReader{text: text, index: map[string]int{}}
	root, _ := r.value("", 0).(map[string]any)
	if r.faults == nil && root == nil {
		return nil, Problems{problem(0, "", "is not a JSON object: { … }")}
	}
	if r.faults != nil {
		var ps Problems
		for _, f := range r.faults {
			ps = append(ps, problem(f.at, f.path, f.message))
		}
		return nil, ps
	}
	return New(file, root, func(path string) (Pos, bool) {
		offset, ok := r.index[path]
		return ls.at(offset), ok || path == ""
	}), nil
}

// notJSON says at which byte a text stops being JSON and why, or "". The
// library's messages quote one character at most.
func notJSON(text string) (at int, message string) {
	if strings.HasPrefix(text, "\ufeff") {
		return 0, "not JSON: begins with a byte order mark; save it without one"
	}
	if strings.TrimSpace(text) == "" {
		return 0, "not JSON: the document is empty"
	}
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return max(int(syntax.Offset)-1, 0), "not JSON: " + syntax.Error()
	}
	if err != nil {
		return 0, "not JSON: the decoder gives up on this text"
	}
	return 0, ""
}
