package seed

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// mappingProblem returns why a document can not be a YAML mapping, or "". It
// looks at the encoding and at the first line that is content, and lets pass
// whatever it is not sure of: cloud-init's YAML reader has the last word, but a
// list, a web page or a file of comments would leave the guest on DHCP, or on
// older releases without any data source.
func mappingProblem(doc []byte) string {
	if !utf8.Valid(doc) || bytes.IndexByte(doc, 0) >= 0 {
		return "is not UTF-8 text; cloud-init could not read it"
	}
	line := firstContent(strings.TrimPrefix(string(doc), "\uFEFF"))
	switch {
	case line == "":
		return "holds no settings; leave it out to get DHCP on the first interface"
	case line[0] == '\t':
		return "is indented with a tab, which YAML does not allow"
	case line[0] == '[' || line == "-" || strings.HasPrefix(line, "- "):
		return "is a YAML list; a mapping such as \"version: 2\" is needed"
	case strings.ContainsRune("{?&!", rune(line[0])):
		return "" // a flow mapping, a complex key, an anchor, a tag
	case strings.HasSuffix(line, ":") || strings.Contains(line, ": ") || strings.Contains(line, ":\t"):
		return ""
	}
	return "is no YAML mapping; \"version: 2\" is how one may start"
}

// firstContent returns the first line that is neither blank, comment, directive
// nor document marker, without leading blanks; "" if there is none.
func firstContent(doc string) string {
	for line := range strings.SplitSeq(doc, "\n") {
		line = strings.TrimLeft(strings.TrimRight(line, " \t\r"), " ")
		if rest, ok := strings.CutPrefix(line, "---"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			line = strings.TrimLeft(rest, " \t")
		}
		if line == "" || line[0] == '#' || line[0] == '%' || line == "..." {
			continue
		}
		return line
	}
	return ""
}
