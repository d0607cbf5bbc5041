package upstream

import (
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 5

// checkRedirect follows https only. Cookies and credentials are never set on a
// request, so none can follow.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if req.URL.Scheme != "https" {
		return &RedirectError{To: redact(req.URL), Reason: "only https is followed"}
	}
	return follow(req, via)
}

// follow lets a redirect happen, a few times, and takes away the Referer that
// net/http sets: a signed URL would reach the next host in it.
func follow(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &RedirectError{To: redact(req.URL), Reason: "too many redirects"}
	}
	req.Header.Del("Referer")
	return nil
}

// followAlike follows only with the method asked for, where net/http would turn
// a PUT into a GET, and with no credentials of the server's choice. That it
// stays at its origin is guard's to see to.
func followAlike(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.User != nil:
		return &RedirectError{To: redact(req.URL), Reason: "names a user"}
	case req.Method != via[0].Method:
		return &RedirectError{To: redact(req.URL), Reason: "would turn " + via[0].Method + " into " + req.Method + ": answer 307 or 308"}
	}
	return follow(req, via)
}

// sameOrigin tells whether a and b have scheme, host and port in common (RFC
// 6454, section 5).
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// port gives the port of u, the scheme's own if it names none.
func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}
