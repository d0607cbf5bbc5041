package seed

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
)

// mappingProblem returns why a document can not be a YAML mapping, or "". It
// looks at the encoding and at how the content starts, and lets pass whatever
// it is not sure of: cloud-init's YAML reader has the last word, but a list, a
// web page or a file of comments would leave the guest on DHCP, or on older
// releases without any data source.
func mappingProblem(doc []byte) string {
	if !utf8.Valid(doc) || bytes.IndexByte(doc, 0) >= 0 {
		return "is not UTF-8 text; cloud-init could not read it"
	}
	for line := range content(strings.TrimPrefix(string(doc), "\uFEFF")) {
		if line[0] == '\t' {
			return "is indented with a tab, which YAML does not allow"
		}
		if line = withoutProperties(line); line != "" {
			return startProblem(line)
		}
	}
	return "holds no settings; leave it out to get DHCP on the first interface"
}

// content gives the lines that are neither blank, comment, directive nor
// document marker, without the blanks around them.
func content(doc string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(doc, "\n") {
			line = strings.TrimLeft(strings.TrimRight(line, " \t\r"), " ")
			if rest, ok := strings.CutPrefix(line, "---"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
				line = strings.TrimLeft(rest, " \t")
			}
			if line == "" || line[0] == '#' || line[0] == '%' || line == "..." {
				continue
			}
			if !yield(line) {
				return
			}
		}
	}
}

// withoutProperties takes tags and anchors off a line's start, and what follows
// them if it is a comment.
func withoutProperties(line string) string {
	for line != "" && (line[0] == '!' || line[0] == '&') {
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			return ""
		}
		line = strings.TrimLeft(line[end:], " \t")
	}
	if strings.HasPrefix(line, "#") {
		return ""
	}
	return line
}

// startProblem returns why no mapping can start with a line, or "".
func startProblem(line string) string {
	switch {
	case line[0] == '[' || line == "-" || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "-\t"):
		return "is a YAML list; a mapping such as \"version: 2\" is needed"
	case line[0] == '{' || line == "?" || strings.HasPrefix(line, "? "):
		return "" // a flow mapping, a complex key
	case isKey(afterScalar(line)):
		return ""
	}
	return "is no YAML mapping; \"version: 2\" is how one may start"
}

// afterScalar returns what follows the quoted scalar that a line starts with, or
// the line itself; "" if the quote does not end on the line, as that of a key has
// to.
func afterScalar(line string) string {
	switch line[0] {
	case '\'':
		rest := line[1:]
		for {
			_, after, ok := strings.Cut(rest, "'")
			if !ok || !strings.HasPrefix(after, "'") {
				return after
			}
			rest = after[1:] // two of them are one that belongs to the text
		}
	case '"':
		for i := 1; i < len(line); i++ {
			if line[i] == '\\' {
				i++
			} else if line[i] == '"' {
				return line[i+1:]
			}
		}
		return ""
	case '@', '`', ',', ']', '}':
		return "" // nothing that YAML knows
	}
	return line
}

// isKey reports whether there is a colon that ends a key, before any comment.
func isKey(rest string) bool {
	for i := range len(rest) {
		last := i == len(rest)-1
		switch {
		case rest[i] == ':' && (last || rest[i+1] == ' ' || rest[i+1] == '\t'):
			return true
		case rest[i] == '#' && i > 0 && (rest[i-1] == ' ' || rest[i-1] == '\t'):
			return false
		}
	}
	return false
}
