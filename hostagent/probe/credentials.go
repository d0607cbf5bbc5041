package probe

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"syscall"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// MaxCredentials bounds a file of credentials, in bytes.
const MaxCredentials = 4 << 10

// maxUserPassword bounds user name and password, each, in bytes: their lengths
// are one byte in RFC 1929, and so that a file serves each type of probe alike.
const maxUserPassword = 255

// credentials are what a proxy knows its user by.
type credentials struct{ user, password spec.Secret }

// basic is the credentials as a header's value (RFC 7617).
func (c *credentials) basic() string {
	pair := string(c.user) + ":" + string(c.password)
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

// readCredentials reads a file of one line "user:password". Its errors are
// about the file and quote nothing in it.
func readCredentials(path string) (*credentials, error) {
	// Opening a pipe would wait for someone to write.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, missing(err)
	}
	defer f.Close() // nothing was written
	st, err := f.Stat()
	if err != nil {
		return nil, missing(err)
	}
	if !st.Mode().IsRegular() {
		return nil, fail(ReasonBadCredentials, "%s is not a regular file (%v)", path, st.Mode().Type())
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxCredentials+1))
	if err != nil {
		return nil, missing(err)
	}
	c, wrong := parseCredentials(content)
	if wrong != "" {
		return nil, fail(ReasonBadCredentials, "%s %s; want one line \"user:password\"", path, wrong)
	}
	return c, nil
}

func missing(err error) error {
	return fail(ReasonCredentialsMissing, "credentials of the probe: %v; have one line \"user:password\" there that the agent may read", err)
}

// parseCredentials splits at the first colon: a user name has none (RFC 7617,
// section 2). What is wrong is said without what is there.
func parseCredentials(content []byte) (c *credentials, wrong string) {
	if len(content) > MaxCredentials {
		return nil, "is too long"
	}
	line := bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	user, password, ok := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, "has more than one line, or control characters"
	case !ok:
		return nil, "has no colon"
	case len(user) == 0:
		return nil, "has no user name"
	case len(user) > maxUserPassword || len(password) > maxUserPassword:
		return nil, "has a user name or password of more than 255 bytes"
	}
	return &credentials{user, password}, ""
}
