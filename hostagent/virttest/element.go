package virttest

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// element is an XML element as its tokens: start, content, end.
type element []xml.Token

// readElement reads the element whose start was read.
func readElement(dec *xml.Decoder, start xml.StartElement) (element, error) {
	e := element{start.Copy()}
	for depth := 1; depth > 0; {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
		e = append(e, xml.CopyToken(token))
	}
	return e, nil
}

// parseElement reads a text that is one element. Names without a namespace get
// the given one.
func parseElement(text, namespace string) (element, error) {
	dec := xml.NewDecoder(strings.NewReader(text))
	start, err := firstElement(dec)
	if err != nil {
		return nil, err
	}
	e, err := readElement(dec, start)
	if err != nil {
		return nil, err
	}
	for i, token := range e {
		if s, ok := token.(xml.StartElement); ok && s.Name.Space == "" {
			s.Name.Space = namespace
			e[i] = s
		}
	}
	return e, nil
}

// render writes the element without prefixes, comments or layout. outer is the
// namespace it is written into: with its own, no xmlns is written, which is how
// libvirt gives metadata out.
func (e element) render(outer string) string {
	var b strings.Builder
	spaces, names := []string{outer}, []string{}
	for _, token := range e {
		switch t := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&b, "<%s", t.Name.Local)
			if t.Name.Space != spaces[len(spaces)-1] {
				attribute(&b, "xmlns", t.Name.Space)
			}
			attributes(&b, t.Attr)
			b.WriteString(">")
			spaces, names = append(spaces, t.Name.Space), append(names, t.Name.Local)
		case xml.EndElement:
			fmt.Fprintf(&b, "</%s>", names[len(names)-1])
			spaces, names = spaces[:len(spaces)-1], names[:len(names)-1]
		case xml.CharData:
			if text := string(t); strings.TrimSpace(text) != "" {
				escape(&b, text)
			}
		}
	}
	return b.String()
}

// attributes writes all but declarations of prefixes. Those of a namespace get
// a prefix of their own.
func attributes(b *strings.Builder, attrs []xml.Attr) {
	for i, a := range attrs {
		switch {
		case a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns":
		case a.Name.Space == "":
			attribute(b, a.Name.Local, a.Value)
		default:
			attribute(b, fmt.Sprintf("xmlns:a%d", i), a.Name.Space)
			attribute(b, fmt.Sprintf("a%d:%s", i, a.Name.Local), a.Value)
		}
	}
}

func attribute(b *strings.Builder, name, value string) {
	fmt.Fprintf(b, ` %s="`, name)
	escape(b, value)
	b.WriteString(`"`)
}

// escape cannot fail: a strings.Builder takes everything.
func escape(b *strings.Builder, text string) { _ = xml.EscapeText(b, []byte(text)) }
