package seed

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a user's vendor data is, its part of the composed document gives it
// back, and the boundary is nowhere inside it.
func FuzzCompose(f *testing.F) {
	f.Add([]byte("#cloud-config\na: 1\n"))
	f.Add([]byte("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nx\n"))
	f.Add([]byte("\xff\x00\r\n--==egress-"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := compose(doc, Script())
		if err != nil {
			if !isMIME(doc) || utf8.Valid(doc) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		head, body, ok := bytes.Cut(got, []byte("\n\n"))
		_, boundary, _ := strings.Cut(string(head), "boundary=\"")
		boundary = strings.TrimSuffix(boundary, "\"")
		if !ok || boundary == "" || bytes.Contains(doc, []byte("--"+boundary)) {
			t.Fatalf("boundary %q is missing or in the document", boundary)
		}
		if n := bytes.Count(got, []byte("--"+boundary)); n != 3 {
			t.Fatalf("the boundary's delimiter stands %d times, want 3", n)
		}
		if isMIME(doc) {
			nested := append([]byte("--"+boundary+"\n"), doc...)
			if !bytes.HasPrefix(body, nested) {
				t.Fatal("the document is not nested as it stands")
			}
			return
		}
		parts := split(t, got)
		if len(parts) != 2 || parts[0] != (part{"text/plain", "", "base64", string(doc)}) || parts[1] != scriptPart {
			t.Fatalf("parts %q", parts)
		}
	})
}
