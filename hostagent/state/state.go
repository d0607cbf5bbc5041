// Package state is the only writer of the state directory: what must survive a
// restart of the agent and can not be read back from libvirt or the image tree.
//
// It owns how that is kept: one file per entry, replaced atomically and
// durably; what can not be used moved aside, known as lost until somebody
// decides about it; one writer at a time; documents of earlier builds.
// Entries are generic. It leaves to hostagent what they mean, which are made
// and removed when, and what a lost one forbids. It looks at no clock.
package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// Kind is a kind of entries, each a sub directory.
type Kind string

// The kinds there are.
const (
	Host      Kind = "host" // the host's own; its one key is "host"
	Proxy     Kind = "proxy"
	Spec      Kind = "spec"
	Tombstone Kind = "tombstone"
	Manifest  Kind = "manifest" // what the manifest source keeps
)

var kinds = [...]Kind{Host, Proxy, Spec, Tombstone, Manifest}

// maxKey bounds a key, in bytes: with what is added to it, it stays a file
// name of at most 255.
const maxKey = 200

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Entry is one entry. Body is one JSON value; white space between its tokens
// is not kept.
type Entry struct {
	Kind Kind
	Key  string
	Body json.RawMessage
}

// Change puts an entry, or removes it when Gone.
type Change struct {
	Entry
	Gone bool
}

// Content is what Open found.
type Content struct {
	Entries []Entry // sorted by kind, key
	// Lost has the sorted keys of entries that were there and could not be
	// used, known by their file names. A key is lost, over restarts too, until
	// Save puts or removes its entry.
	Lost     map[Kind][]string
	Problems []string // for people: file, why, where it was moved
}

// place is where an entry belongs.
type place struct {
	kind Kind
	key  string
}

// Decode reads the body into v, of which every key has to be known.
func (e Entry) Decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(e.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its value")
	}
	return nil
}

func (e Entry) place() place { return place{e.Kind, e.Key} }

func (p place) String() string { return fmt.Sprintf("%s/%s", clip(string(p.kind)), clip(p.key)) }

// check keeps what is no kind or key from becoming a file name.
func (p place) check() error {
	if !slices.Contains(kinds[:], p.kind) {
		return fmt.Errorf("kind %q is not one of %v", clip(string(p.kind)), kinds)
	}
	return checkKey(p.key)
}

func checkKey(key string) error {
	if len(key) > maxKey || !keyPattern.MatchString(key) {
		return fmt.Errorf("key %q can not be a file name: it needs 1 to %d letters, digits, '_', '.' and '-', the first a letter or digit",
			clip(key), maxKey)
	}
	return nil
}

// check tells whether a change can be kept at all.
func (c Change) check() error {
	if err := c.place().check(); err != nil {
		return err
	}
	if !c.Gone && !json.Valid(c.Body) {
		return errors.New("the body is not one JSON value")
	}
	return nil
}

// finish sorts, and joins what was lost.
func (c *Content) finish(lost []place) {
	slices.SortFunc(c.Entries, func(a, b Entry) int { return compare(a.place(), b.place()) })
	slices.SortFunc(lost, compare)
	for _, p := range lost {
		if c.Lost == nil {
			c.Lost = map[Kind][]string{}
		}
		c.Lost[p.kind] = append(c.Lost[p.kind], p.key)
	}
}

func compare(a, b place) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key))
}

// clip bounds a text that goes into a message.
func clip(s string) string { return cut(s, 400) }

func cut(s string, most int) string {
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
