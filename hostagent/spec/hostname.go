package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

var (
	// hostForm is a host name of RFC 1123, in lower case: host names are
	// compared without regard to case, so "EDGE1" has to differ from "edge1" in
	// more than that.
	hostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// addressForm is what resolvers take for an address: "10.0.0.1", "4913".
	addressForm = regexp.MustCompile(`(^|\.)[0-9]+$`)
	// derivedForm is how Hostname's own derivations end.
	derivedForm = regexp.MustCompile(`-x[0-9a-f]{6}$`)
	notHost     = regexp.MustCompile(`[^a-z0-9.-]`)
)

// Hostname gives the guest's host name: name itself when that is a lower-case
// RFC 1123 host name of at most MaxName bytes, else a host name like it, with
// "-x" and 6 hex digits of name's SHA-256 appended: "edge_1" becomes
// "edge-1-xa2145e". Different names give different host names, also for those
// who ignore case; a name that happens to end like a derived one is derived
// too. The result never changes between releases: it is part of Hash.
func Hostname(name string) string {
	if isHost(name) && !derivedForm.MatchString(name) {
		return name
	}
	const tail = len("-x") + 6
	sum := sha256.Sum256([]byte(name))
	base := notHost.ReplaceAllString(strings.ToLower(name), "-")
	base = base[:min(len(base), MaxName-tail)]
	var labels []string
	for label := range strings.SplitSeq(base, ".") {
		if label = strings.Trim(label, "-"); label != "" {
			labels = append(labels, label)
		}
	}
	if len(labels) == 0 {
		labels = []string{"proxy"}
	}
	return strings.Join(labels, ".") + "-x" + hex.EncodeToString(sum[:3])
}

func isHost(name string) bool {
	return len(name) <= MaxName && hostForm.MatchString(name) && !addressForm.MatchString(name)
}
