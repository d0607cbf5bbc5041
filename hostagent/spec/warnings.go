package spec

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// headers are what cloud-init recognises a document by, in lower case
// (INCLUSION_TYPES_MAP of its cloudinit/handlers).
var headers = [...]string{
	"#!", "#cloud-config", "#cloud-config-archive", "#cloud-config-jsonp", "#cloud-boothook",
	"#include", "#include-once", "#part-handler", "## template: jinja",
}

// mimeWindow is how far cloud-init looks for a MIME header, in bytes.
const mimeWindow = 4096

// Warnings says what cloud-init will probably ignore or stumble over in the
// user-data, which is shipped as it is all the same. It quotes none of it.
func (s Spec) Warnings() []string {
	data := []byte(s.UserData)
	if len(data) == 0 || bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return nil
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return []string{"user-data begins with a byte order mark, so cloud-init will not recognise it; save it without one"}
	}
	var out []string
	if !recognised(data) {
		out = append(out, fmt.Sprintf("user-data begins with nothing that cloud-init knows, so it will be ignored; its first line is usually %q or %q", "#cloud-config", "#!/bin/sh"))
	}
	if isScript(data) && bytes.Contains(data, []byte("\r\n")) {
		out = append(out, `user-data is a script with Windows line ends (CRLF), which are shipped as they are; an interpreter may look for "sh\r"; save it with LF line ends`)
	}
	if !utf8.Valid(data) {
		out = append(out, "user-data is not UTF-8, so cloud-init may drop all of it; it is shipped as it is; save it as UTF-8")
	}
	return out
}

// recognised follows cloud-init: a MIME document by its header, anything else
// by how it begins after white space, in any case.
func recognised(data []byte) bool {
	if bytes.Contains(bytes.ToLower(data[:min(len(data), mimeWindow)]), []byte("mime-version:")) {
		return true
	}
	start := beginning(data)
	for _, h := range headers {
		if strings.HasPrefix(start, h) {
			return true
		}
	}
	return false
}

// beginning gives what decides a document's kind, in lower case.
func beginning(data []byte) string {
	data = bytes.TrimLeft(data, " \t\r\n\v\f")
	return strings.ToLower(string(data[:min(len(data), 64)]))
}

// isScript tells whether the document, or what its jinja template becomes, is
// run by an interpreter.
func isScript(data []byte) bool {
	if strings.HasPrefix(beginning(data), "## template: jinja") {
		_, data, _ = bytes.Cut(bytes.TrimLeft(data, " \t\r\n\v\f"), []byte("\n"))
	}
	start := beginning(data)
	return strings.HasPrefix(start, "#!") || strings.HasPrefix(start, "#cloud-boothook")
}
