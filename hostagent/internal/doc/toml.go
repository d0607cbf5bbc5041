package doc

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// MaxSize is the largest document ParseTOML takes, in bytes.
const MaxSize = 1 << 20

// ParseTOML reads a TOML document; file is its name for people. Text that is
// not TOML (a key given twice is not) gives Problems with the one place where
// reading stopped.
//
// The text is never normalised: a string holds the bytes that stand in the
// file, CRLF line ends of a multi-line string included, less the first newline
// after its opening quotes, which TOML takes away.
func ParseTOML(file string, data []byte) (*Doc, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	ls := newLines(text)
	stop := func(offset int, key, message string) error {
		at := ls.at(offset)
		return Problems{{file, at.Line, at.Column, key, message}}
	}
	if len(text) > MaxSize {
		return nil, stop(0, "", fmt.Sprintf("%d bytes long; at most %d are read", len(text), MaxSize))
	}
	if at := firstInvalid(text); at >= 0 {
		return nil, stop(at, "", fmt.Sprintf("byte 0x%02x is not UTF-8; TOML files are UTF-8 text (bytes of another kind can be given in base64)", text[at]))
	}
	index, at, err := scan(text)
	if err != nil {
		return nil, stop(at, "", err.Error())
	}
	root, err := decode(text)
	if parse, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, stop(parse.Position.Start, lastKey(parse.LastKey), bounded("not TOML: "+redact(parse.Message)))
	}
	if err != nil {
		return nil, stop(0, "", "not TOML: the decoder gives up on this text")
	}
	return New(file, root, func(path string) (Pos, bool) {
		offset, ok := index[path]
		return ls.at(offset), ok || path == ""
	}), nil
}

// errGaveUp stands for a panic of the library.
var errGaveUp = errors.New("the TOML library panicked")

// decode runs the library. It reports its own defects by panics; one bad file
// must not end the agent, so a panic is an error here.
func decode(text string) (root map[string]any, err error) {
	defer func() {
		if recover() != nil {
			err = errGaveUp
		}
	}()
	root = map[string]any{}
	_, err = toml.Decode(text, &root)
	return root, err
}

// firstInvalid gives the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(text string) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// A multi-line string that ends too early makes its rest read as keys and
// values, and the library quotes them in its messages. That rest may be a
// secret, so only keys of a schema's form and quoted text of one character are
// passed on; line and column say the rest.
var (
	schemaKey = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}(\.[a-z0-9][a-z0-9_-]{0,31})*$`)
	oneChar   = regexp.MustCompile(`'(\\[xuU][0-9a-fA-F]+|0x[0-9a-fA-F]+|\\?.)'|"\\?."`)
)

func lastKey(key string) string {
	if schemaKey.MatchString(key) {
		return key
	}
	return ""
}

// redact cuts quoted text out of a message of the library.
func redact(message string) string {
	if !strings.ContainsAny(oneChar.ReplaceAllString(message, ""), "\"'`") {
		return message
	}
	first := strings.IndexAny(message, "\"'`")
	last := strings.LastIndexAny(message, "\"'`")
	return message[:first] + "…" + message[last+1:]
}
