package upstream

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

// DefaultOriginStall is the default of OriginOptions.Stall.
const DefaultOriginStall = 15 * time.Second

// bodyTime bounds the whole of an answer's body, which may be slow without
// being stalled.
const bodyTime = 10 * time.Minute

// What a URL of an origin must not be.
var (
	// ErrInsecure: the URL is plain http, and that was not allowed.
	ErrInsecure = errors.New("plain http is taken only where it is allowed explicitly: use https")
	// ErrUserinfo: the URL holds a user or a password.
	ErrUserinfo = errors.New("a URL holds no user and no password: put a token into a file")
	// ErrHostName: the URL's host is not ASCII.
	ErrHostName = errors.New("a host name is written in ASCII: xn--… for any other")
	// ErrHalfPair: a certificate without its key, or the other way round.
	ErrHalfPair = errors.New("a client certificate and its key are configured together")
)

// OriginOptions are options of an Origin. A zero field means its default.
type OriginOptions struct {
	Files        Files
	InsecureHTTP bool // takes a plain http URL
	UserAgent    string
	RootCAs      *x509.CertPool // without Files.CA, and of a proxy; nil: the system's
	// Stall is how long an attempt may make no progress: while it connects, for
	// the response header, beyond what Request.Wait asks for, or for
	// minProgress bytes of body.
	Stall time.Duration
	Now   func() time.Time // nil: time.Now
	Proxy Proxy            // nil: http.ProxyFromEnvironment
}

// Origin is a client of one URL with the credentials that only that URL's
// scheme, host and port are shown. It is safe for concurrent use, keeps no
// answer, and waits for nothing but the server: its caller owns the loop. No
// way of printing it shows a secret.
type Origin struct {
	url   *url.URL
	opt   OriginOptions
	keys  *keyring
	used  atomic.Int64 // set.changes of the last attempt
	whole time.Duration

	mu    sync.Mutex
	links int // set.links of base
	base  *http.Transport
}

// NewOrigin makes the client for rawURL. It does no I/O: credential files may
// be missing. Its error, an *Error, holds no query string and no password.
func NewOrigin(rawURL string, o OriginOptions) (*Origin, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, &Error{Op: "use", URL: "(unreadable URL)", Err: ErrScheme}
	}
	if err := checkOrigin(u, o); err != nil {
		return nil, &Error{Op: "use", URL: redact(u), Err: err}
	}
	u.Fragment, u.RawFragment = "", ""
	if o.UserAgent == "" {
		o.UserAgent = DefaultUserAgent
	}
	if o.Stall <= 0 {
		o.Stall = DefaultOriginStall
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Origin{url: u, opt: o, keys: &keyring{files: o.Files, now: o.Now}, whole: bodyTime}, nil
}

// checkOrigin tells what keeps u from being an origin.
func checkOrigin(u *url.URL, o OriginOptions) error {
	switch {
	case u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return ErrScheme
	case strings.IndexFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0:
		return ErrHostName
	case u.User != nil:
		return ErrUserinfo
	case u.Scheme == "http" && !o.InsecureHTTP:
		return ErrInsecure
	case (o.Files.Cert == "") != (o.Files.Key == ""):
		return ErrHalfPair
	}
	return nil
}

// String gives the URL for people.
func (o *Origin) String() string { return redact(o.url) }

// GoString gives the same for %#v.
func (o *Origin) GoString() string { return redact(o.url) }

// Check reads the credential files, without any network, and tells what became
// of each: once at start, and for diagnosis.
func (o *Origin) Check() []FileState {
	_, states := o.keys.look()
	return states
}

// Seen gives what the last request or Check saw of the credential files, and
// does no I/O. It is nil before the first.
func (o *Origin) Seen() []FileState { return o.keys.states() }

// Renewed tells whether a credential file has changed since the last attempt. It
// reads the files.
func (o *Origin) Renewed() bool {
	changes, _ := o.keys.look()
	return int64(changes) != o.used.Load()
}
