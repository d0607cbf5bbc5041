package spec

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
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

// Warnings says what is legal in a spec and probably not meant: what cloud-init
// will ignore or stumble over in user-data and vendor data, which are shipped as
// they are all the same, addresses that a filter stops, and ports and probes that
// tell little. It quotes none
// of it.
func (s Spec) Warnings() []string {
	out := documentWarnings("user-data", s.UserData)
	out = append(out, documentWarnings("vendor-data", s.VendorData)...)
	if s.Port == sshPort {
		out = append(out, fmt.Sprintf("port %d is where the guest's SSH server listens, if it has one; a probe of the port will take it for the proxy", sshPort))
	}
	for i, n := range s.Networks {
		if n.CleanTraffic && slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
			out = append(out, fmt.Sprintf("network[%d] has an IPv6 address and clean_traffic, whose filter lets no IPv6 pass", i))
		}
	}
	return append(out, s.Probe.warnings()...)
}

const sshPort = 22

// ownStatuses are what a proxy answers by itself: that it wants credentials, and
// that it could not get through.
var ownStatuses = []int{407, 502, 503, 504}

func (p Probe) warnings() []string {
	var out []string
	if slices.Contains(ownStatuses, p.ExpectStatus) {
		out = append(out, fmt.Sprintf("probe expects status %d, which a proxy answers by itself when it lets nothing through", p.ExpectStatus))
	}
	host := strings.Trim(p.Target[:max(strings.LastIndexByte(p.Target, ':'), 0)], "[]")
	if u, err := url.Parse(p.URL); err == nil && p.URL != "" {
		host = u.Hostname()
	}
	if a, err := netip.ParseAddr(host); strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback() {
		out = append(out, "probe asks the proxy for its own host, which says nothing about the way out; ask for something beyond it")
	}
	return out
}

// documentWarnings says what cloud-init will do to a document of that name.
func documentWarnings(name string, data []byte) []string {
	if len(data) == 0 || bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return nil
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return []string{name + " begins with a byte order mark, so cloud-init will not recognise it; save it without one"}
	}
	var out []string
	switch {
	case recognised(data):
	case recognised(afterMarker(data)):
		out = append(out, fmt.Sprintf("%s begins with the line \"---\" before its header, so cloud-init will ignore it; remove that line", name))
	default:
		out = append(out, fmt.Sprintf("%s begins with nothing that cloud-init knows, so it will be ignored; its first line is usually %q or %q", name, "#cloud-config", "#!/bin/sh"))
	}
	if isScript(data) && bytes.Contains(data, []byte("\r\n")) {
		out = append(out, name+` is a script with Windows line ends (CRLF), which are shipped as they are; an interpreter may look for "sh\r"; save it with LF line ends`)
	}
	switch {
	case utf8.Valid(data):
	case isMIME(data):
		out = append(out, name+" is a MIME document that is not UTF-8, at which cloud-init stops, with all that it should do; it is shipped as it is; encode its parts in base64")
	default:
		out = append(out, name+" is not UTF-8, so cloud-init may drop all of it; it is shipped as it is; save it as UTF-8")
	}
	return out
}

// recognised follows cloud-init: a MIME document by its header, anything else
// by how it begins after white space, in any case.
func recognised(data []byte) bool {
	if isMIME(data) {
		return true
	}
	start := beginning(data)
	return slices.ContainsFunc(headers[:], func(h string) bool { return strings.HasPrefix(start, h) })
}

func isMIME(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data[:min(len(data), mimeWindow)]), []byte("mime-version:"))
}

// blanks are what cloud-init skips before a header.
const blanks = " \t\r\n\v\f"

// afterMarker gives what follows a first line of YAML that begins a document;
// nothing when there is no such line.
func afterMarker(data []byte) []byte {
	line, rest, _ := bytes.Cut(bytes.TrimLeft(data, blanks), []byte("\n"))
	if string(bytes.TrimRight(line, blanks)) != "---" {
		return nil
	}
	return rest
}

// beginning gives what decides a document's kind, in lower case.
func beginning(data []byte) string {
	data = bytes.TrimLeft(data, blanks)
	return strings.ToLower(string(data[:min(len(data), 64)]))
}

// isScript tells whether the document, or what its jinja template becomes, is
// run by an interpreter.
func isScript(data []byte) bool {
	if strings.HasPrefix(beginning(data), "## template: jinja") {
		_, data, _ = bytes.Cut(bytes.TrimLeft(data, blanks), []byte("\n"))
	}
	start := beginning(data)
	return strings.HasPrefix(start, "#!") || strings.HasPrefix(start, "#cloud-boothook")
}
