package upstream

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Bounds of credential files, in bytes.
const (
	maxTokenFile = 16 << 10
	maxPEMFile   = 1 << 20 // a bundle of all public CAs has a quarter of it
)

// Files are paths to credentials; empty: none. They are read before each
// request and never at construction.
type Files struct {
	CA    string // PEM certificates; with it no other authority is believed
	Cert  string // PEM, the client's own certificate first
	Key   string // PEM, of Cert; may be the same file
	Token string // a bearer token on one line
}

// The roles of credential files.
const (
	RoleCA    = "CA"
	RoleCert  = "client certificate"
	RoleKey   = "client key"
	RoleToken = "token"
)

// CredentialError is a credential file that can not be used as it is now. Its
// class is Transient while the file can not be read, and Permanent, until the
// file changes, when what it holds can not be used.
type CredentialError struct {
	Role  string
	Path  string
	Class Class
	Err   error // what is wrong and what to do; nothing of the content
}

// Error implements error.
func (e *CredentialError) Error() string { return fmt.Sprintf("%s %s: %v", e.Role, e.Path, e.Err) }

// Unwrap gives the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// FileState is what is known of one credential file.
type FileState struct {
	Role string
	Path string
	// Err, a *CredentialError, says why what the file holds now is not in use;
	// nil: it is.
	Err error
	// Kept: what the file held before is still in use in its place.
	Kept bool
	// Warning names what should be changed though it works; mostly empty.
	Warning string
	// NotAfter is when the client certificate in use ends; zero for other files.
	NotAfter time.Time
}

// secret is a text that no formatting shows, within another value either: fmt
// calls no method of an unexported field, but follows no pointer in one.
type secret struct{ text *string }

// String implements fmt.Stringer.
func (secret) String() string { return "***" }

// GoString implements fmt.GoStringer.
func (secret) GoString() string { return "***" }

// reveal gives the text, empty if there is none.
func (s secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// content is a credential file as it was read.
type content struct {
	role, path string
	data       []byte
	mode       fs.FileMode
	err        *CredentialError
}

// print identifies what was read, as far as a parser could tell a difference.
func (c content) print() string {
	if c.err != nil {
		return "unread"
	}
	sum := sha256.Sum256(c.data)
	return string(sum[:])
}

// readFile reads a credential file of at most limit bytes.
func readFile(role, path string, limit int64) content {
	c := content{role: role, path: path}
	fail := func(class Class, err error) content {
		c.err = &CredentialError{Role: role, Path: path, Class: class, Err: err}
		return c
	}
	// Opening a pipe must not wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(Transient, advice(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(Transient, advice(err))
	}
	c.mode = info.Mode()
	if !c.mode.IsRegular() {
		return fail(Permanent, errors.New("is no regular file: name one"))
	}
	c.data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return fail(Transient, advice(err))
	}
	if int64(len(c.data)) > limit {
		return fail(Permanent, fmt.Errorf("is larger than %d bytes: is it the right file?", limit))
	}
	return c
}

// advice says what to do about a file that can not be read. The path is named
// by who wraps it.
func advice(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: put it there, it is used within seconds", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the agent's user read it", err)
	}
	return err
}

// exposed tells who else can read a secret file, empty if nobody.
func (c content) exposed() string {
	if c.err == nil && (c.role == RoleKey || c.role == RoleToken) && c.mode.Perm()&0o004 != 0 {
		return fmt.Sprintf("every user of this host can read it (mode %04o): chmod o= it", c.mode.Perm())
	}
	return ""
}
