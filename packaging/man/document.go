package man

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// Document gives the page NAME(5) of a Markdown document, in roff. short is
// what the page's NAME section says. The document's title is left out, each of
// its sections is one of the page. A table, which would be as wide as its
// longest cell, becomes a list of its first column. The page carries date, in UTC.
func Document(name, short string, markdown []byte, date time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %q \"5\" %q %q %q\n", strings.ToUpper(name), date.UTC().Format("Jan 2006"), source, manual)
	fmt.Fprintf(&b, "# NAME\n%s - %s\n\n# DESCRIPTION\n", name, short)
	b.WriteString(body(strings.Split(string(markdown), "\n")))
	b.WriteString("\n# SEE ALSO\n**egress-hostagent(8)**, **egress-hostagent-config(5)**, **egress-hostagent-spec(5)**\n")
	return md2man.Render([]byte(b.String()))
}

// body rewrites what does not look well as a page. Lines of code stay.
func body(lines []string) string {
	var b strings.Builder
	code := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
		case strings.HasPrefix(line, "# "):
			continue
		case strings.HasPrefix(line, "##"):
			line = line[1:]
		case strings.HasPrefix(line, "|"):
			line = row(line, i+1 < len(lines) && isRule(lines[i+1]))
		default:
			line = links(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

var rule = regexp.MustCompile(`^\|[-| :]+\|$`)

func isRule(line string) bool { return rule.MatchString(line) }

// row makes a row of a table an entry of a list: the first cell is its term.
// The head and the line below it say nothing in a list.
func row(line string, head bool) string {
	if head || isRule(line) {
		return ""
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i, cell := range cells {
		cells[i] = links(strings.TrimSpace(cell))
	}
	text := strings.Join(cells[1:min(2, len(cells))], "")
	if len(cells) > 2 && cells[2] != "" {
		text += ". Example: " + strings.Join(cells[2:], ", ")
	}
	return fmt.Sprintf("%s\n: %s\n", cells[0], text)
}

var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// links makes of a link to another file its text: the path of an example, the
// name of a page.
func links(line string) string {
	return link.ReplaceAllStringFunc(line, func(found string) string {
		part := link.FindStringSubmatch(found)
		text, target := part[1], part[2]
		switch {
		case strings.Contains(target, "://"):
			return found
		case strings.HasPrefix(target, "../testdata/specs/"):
			return "`/usr/share/doc/egress-hostagent/examples/" + strings.TrimPrefix(target, "../testdata/specs/") + "`"
		case strings.HasPrefix(target, "SPEC.md"):
			return "**egress-hostagent-spec(5)**"
		case strings.HasPrefix(target, "CONFIG.md"):
			return "**egress-hostagent-config(5)**"
		}
		return text
	})
}
