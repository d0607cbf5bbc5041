package seed

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"mime"
	"net/mail"
	"regexp"
	"strings"
	"unicode/utf8"
)

// partName is the script's file name in the guest. cloud-init runs vendor
// scripts in name order, so "zz" puts it behind the user's own, which may set
// up mirrors or a proxy first.
const partName = "zz-egress-guest-agent.sh"

// sniffed is how far into a document cloud-init looks for MIME headers.
const sniffed = 4096

// vendorData returns the vendor-data file, nil for no file. Without the guest
// agent it is the user's own bytes. With it, cloud-init makes of the user's
// document what it would make of it alone, and runs the script after that.
func (in Input) vendorData() ([]byte, error) {
	if !in.GuestAgent || len(in.VendorData) > MaxVendorData {
		return in.VendorData, nil
	}
	doc, err := gunzipLayer(in.VendorData, MaxVendorData)
	if err != nil {
		return nil, err
	}
	if isBlank(doc) {
		return Script(), nil
	}
	return compose(doc, Script())
}

// isBlank reports whether a document is empty or white space to cloud-init.
func isBlank(doc []byte) bool {
	return len(bytes.Trim(doc, " \t\r\n\v\f")) == 0
}

// compose joins a document and the script in one multipart document.
//
// The user's part comes first and has no file name, so it and everything
// unpacked from it keep the names they have when alone. It is text/plain, the
// type whose content cloud-init sniffs just as it sniffs a bare document, and
// base64, because Python's e-mail parser changes non-ASCII text in any other
// encoding. A document that is MIME itself would be lost inside text/plain: it
// is nested as it stands instead.
func compose(doc, script []byte) ([]byte, error) {
	nested := isMIME(doc)
	if nested && !utf8.Valid(doc) {
		return nil, &InputError{VendorDataFile,
			"is a MIME document that is not UTF-8; cloud-init would stop at it: encode its parts in base64"}
	}
	boundary := pickBoundary(boundarySeed(doc, script), doc)
	var out bytes.Buffer
	out.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n")
	out.WriteString("--" + boundary + "\n")
	if nested {
		out.Write(doc)
		if !endsOpen(doc) {
			out.WriteString("\n")
		}
	} else {
		writePart(&out, "text/plain", "", doc)
	}
	out.WriteString("--" + boundary + "\n")
	writePart(&out, "text/x-shellscript", partName, script)
	out.WriteString("--" + boundary + "--\n")
	return out.Bytes(), nil
}

// writePart writes headers and base64 body of one part; no name, no
// Content-Disposition.
func writePart(out *bytes.Buffer, ctype, name string, body []byte) {
	out.WriteString("Content-Type: " + ctype + "; charset=\"utf-8\"\n")
	out.WriteString("MIME-Version: 1.0\nContent-Transfer-Encoding: base64\n")
	if name != "" {
		out.WriteString("Content-Disposition: attachment; filename=\"" + name + "\"\n")
	}
	out.WriteString("\n")
	const perLine = 57 // bytes that fill the 76 columns RFC 2045 allows
	line := make([]byte, 0, 77)
	for len(body) > 0 {
		n := min(perLine, len(body))
		line = base64.StdEncoding.AppendEncode(line[:0], body[:n])
		out.Write(append(line, '\n'))
		body = body[n:]
	}
}

// headerLine is what Python's e-mail parser takes for a line of a header.
var headerLine = regexp.MustCompile(`^(From |[!-9;-~]*:|[\t ])`)

// isMIME reports whether cloud-init would read a document as MIME with headers
// of its own: "mime-version:" in any case (ASCII only, as Python lowers bytes)
// near its start, and a first line that belongs to a header. Where only the
// first holds, cloud-init finds a message without headers, and text/plain keeps
// that document whole.
func isMIME(doc []byte) bool {
	head := bytes.Clone(doc[:min(sniffed, len(doc))])
	for i, c := range head {
		if 'A' <= c && c <= 'Z' {
			head[i] = c + 'a' - 'A'
		}
	}
	return bytes.Contains(head, []byte("mime-version:")) && headerLine.Match(doc)
}

// endsOpen reports whether a MIME document ends with a line of its last part,
// without the delimiter that closes it. Python then adds the line end before our
// delimiter to that part, and not to the delimiter as it does elsewhere.
func endsOpen(doc []byte) bool {
	msg, err := mail.ReadMessage(bytes.NewReader(doc))
	if err != nil || !bytes.HasSuffix(doc, []byte("\n")) {
		return false
	}
	ctype, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	return err == nil && strings.HasPrefix(ctype, "multipart/") && params["boundary"] != "" &&
		!bytes.Contains(doc, []byte("\n--"+params["boundary"]+"--"))
}

// boundarySeed derives the start of the boundary search from the content alone,
// so that equal inputs give equal documents.
func boundarySeed(doc, script []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(doc))))
	h.Write(doc)
	h.Write(script)
	return [sha256.Size]byte(h.Sum(nil))
}

// pickBoundary returns the first candidate whose delimiter does not occur in
// the document. That is stricter than the rule, which is about line starts.
func pickBoundary(from [sha256.Size]byte, doc []byte) string {
	for {
		boundary := "==egress-" + hex.EncodeToString(from[:16]) + "=="
		if !bytes.Contains(doc, []byte("--"+boundary)) {
			return boundary
		}
		from = sha256.Sum256(from[:])
	}
}
