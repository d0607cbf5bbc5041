package doc

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// part is one part of a dotted key and its byte offset.
type part struct {
	text string
	at   int
}

// key reads a dotted key; it gives no parts when there is none.
func (s *scanner) key() []part {
	var parts []part
	for {
		s.blanks()
		p := part{at: s.pos}
		switch {
		case s.accept(`"`):
			p.text = unescape(s.closing(`"`, true))
		case s.accept("'"):
			p.text = s.closing("'", false)
		default:
			p.text = s.bareKey()
			if p.text == "" {
				return parts
			}
		}
		parts = append(parts, p)
		if len(parts) > maxKeyParts {
			s.fail("a key of more than %d parts", maxKeyParts)
			return nil
		}
		s.blanks()
		if !s.accept(".") {
			return parts
		}
	}
}

func (s *scanner) bareKey() string {
	start := s.pos
	for s.more() && bareChar(s.text[s.pos]) {
		s.pos++
	}
	return s.text[start:s.pos]
}

// closing reads up to and over the delimiter that ends a string and gives what
// is before it. A one-line string ends with its line at the latest.
func (s *scanner) closing(delim string, escapes bool) string {
	start := s.pos
	for s.more() {
		c := s.text[s.pos]
		switch {
		case escapes && c == '\\':
			s.pos = min(s.pos+2, len(s.text))
		case len(delim) == 1 && c == '\n':
			return s.text[start:s.pos]
		case s.accept(delim):
			end := s.pos - len(delim)
			s.quotes(delim)
			return s.text[start:end]
		default:
			s.pos++
		}
	}
	return s.text[start:]
}

// quotes reads the one or two quotes that may stand directly before a
// multi-line string's end and belong to the string.
func (s *scanner) quotes(delim string) {
	if len(delim) == 3 && s.accept(delim[:1]) {
		s.accept(delim[:1])
	}
}

func (s *scanner) blanks() {
	for s.more() && strings.IndexByte(" \t\r", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// space reads blanks, newlines and comments.
func (s *scanner) space() {
	for {
		s.blanks()
		switch {
		case s.accept("\n"):
		case s.accept("#"):
			s.until("\n")
		default:
			return
		}
	}
}

// line reads the rest of the line.
func (s *scanner) line() {
	s.until("\n")
	s.accept("\n")
}

// until reads up to the next byte that is one of stops.
func (s *scanner) until(stops string) {
	n := strings.IndexAny(s.text[s.pos:], stops)
	if n < 0 {
		n = len(s.text) - s.pos
	}
	s.pos += n
}

// unescape resolves the escapes of a basic string that the library accepts. An
// escape it would refuse stays as it is.
func unescape(in string) string {
	var b strings.Builder
	for i := 0; i < len(in); {
		if in[i] != '\\' || i+1 == len(in) {
			b.WriteByte(in[i])
			i++
			continue
		}
		r, n := escape(in[i+1:])
		b.WriteRune(r)
		i += 1 + n
	}
	return b.String()
}

// escape gives the character that the escape in (without its backslash) means,
// and how many bytes it takes.
func escape(in string) (rune, int) {
	const names, meaning = `btnfre"\`, "\b\t\n\f\r\x1b\"\\"
	if i := strings.IndexByte(names, in[0]); i >= 0 {
		return rune(meaning[i]), 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[in[0]]
	if digits == 0 || len(in) < 1+digits {
		return utf8.RuneError, 1
	}
	v, err := strconv.ParseUint(in[1:1+digits], 16, 32)
	if err != nil {
		return utf8.RuneError, 1
	}
	return rune(v), 1 + digits
}
