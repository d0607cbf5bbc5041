package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// keyring holds the credentials in use. It reads their files whenever it is
// asked, since a look at times and sizes can miss a change, and keeps what was
// good while what came after it is not.
type keyring struct {
	files Files
	now   func() time.Time
	seen  atomic.Pointer[[]FileState]

	mu      sync.Mutex
	changes int // how often something else was read than before
	ca      part[*x509.CertPool]
	pair    part[*tls.Certificate]
	token   part[secret]
}

// set is what one attempt uses.
type set struct {
	changes int // the keyring's, when it was made
	links   int // changes with all that a connection depends on
	roots   *x509.CertPool
	pair    *tls.Certificate
	token   secret
}

// current reads the files and gives what to use. An error, which may be several
// *CredentialError, means that a configured part was never good.
func (k *keyring) current() (set, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read()
	var lacks several
	for _, err := range []error{k.ca.missing(), k.pair.missing(), k.token.missing()} {
		if err != nil {
			lacks = append(lacks, err)
		}
	}
	s := set{
		changes: k.changes,
		links:   k.ca.renewals + k.pair.renewals,
		roots:   k.ca.value,
		pair:    k.pair.value,
		token:   k.token.value,
	}
	if lacks != nil {
		return s, lacks
	}
	return s, nil
}

// several are errors on one line.
type several []error

// Error implements error.
func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives them all.
func (s several) Unwrap() []error { return s }

// look reads the files and gives what became of them.
func (k *keyring) look() (changes int, states []FileState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read()
	return k.changes, *k.seen.Load()
}

// read takes in what the files hold now. A configured path is read even if its
// partner can not be: each file has a state of its own.
func (k *keyring) read() {
	var states []FileState
	if k.files.CA != "" {
		c := readFile(RoleCA, k.files.CA, maxPEMFile)
		k.count(k.ca.update(func() (*x509.CertPool, error) { return parseCA(c.data) }, c))
		states = append(states, k.ca.state(c, k.now()))
	}
	if k.files.Cert != "" {
		cert, key := readFile(RoleCert, k.files.Cert, maxPEMFile), readFile(RoleKey, k.files.Key, maxPEMFile)
		k.count(k.pair.update(func() (*tls.Certificate, error) { return parsePair(cert.data, key.data) }, cert, key))
		states = append(states, k.pair.state(cert, k.now()), k.pair.state(key, k.now()))
	}
	if k.files.Token != "" {
		c := readFile(RoleToken, k.files.Token, maxTokenFile)
		k.count(k.token.update(func() (secret, error) { return parseToken(c.data) }, c))
		states = append(states, k.token.state(c, k.now()))
	}
	k.seen.Store(&states)
}

func (k *keyring) count(changed bool) {
	if changed {
		k.changes++
	}
}

// states gives what the last reading saw, without any.
func (k *keyring) states() []FileState {
	if s := k.seen.Load(); s != nil {
		return slices.Clone(*s)
	}
	return nil
}

// part is one credential, made from one file or two.
type part[T any] struct {
	read, used string // fingerprints of what was read last and of what is in use
	renewals   int    // how often value was replaced; zero: never good
	value      T
	err        *CredentialError // of what was read last
}

// update takes in what the files hold, and tells whether that is news.
func (p *part[T]) update(parse func() (T, error), files ...content) bool {
	var fingerprint strings.Builder
	p.err = nil
	for _, f := range files {
		fingerprint.WriteString(f.print())
		if p.err == nil {
			p.err = f.err
		}
	}
	changed := fingerprint.String() != p.read
	p.read = fingerprint.String()
	if p.err != nil || p.read == p.used {
		return changed
	}
	value, err := parse()
	if err != nil {
		p.err = &CredentialError{Role: files[0].role, Path: files[0].path, Class: Permanent, Err: err}
		return changed
	}
	p.value, p.used = value, p.read
	p.renewals++
	return changed
}

// missing gives the error that leaves nothing to use.
func (p *part[T]) missing() error {
	if p.err == nil || p.renewals > 0 {
		return nil
	}
	return p.err
}

// state tells of one file of the part.
func (p *part[T]) state(c content, now time.Time) FileState {
	s := FileState{Role: c.role, Path: c.path, Warning: c.exposed()}
	switch {
	case c.err != nil:
		s.Err = c.err
	case p.err != nil && p.err.Class == Permanent: // of both files together
		s.Err = p.err
	}
	s.Kept = s.Err != nil && p.renewals > 0
	if pair, ok := any(p.value).(*tls.Certificate); ok && pair != nil && c.role == RoleCert {
		s.NotAfter = pair.Leaf.NotAfter
		if now.After(s.NotAfter) {
			s.Warning = "it ended on " + s.NotAfter.UTC().Format(time.RFC3339) + ": put a new one there"
		}
	}
	return s
}
