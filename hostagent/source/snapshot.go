package source

import (
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// The origins of specs.
const (
	OriginDir      = "dir"      // a file of the watched directory
	OriginManifest = "manifest" // the document that is pulled over HTTPS
)

// Snapshot is all that one source says at one moment: always the whole, never
// a difference.
//
// Synced is false when the source is in doubt (missing or unreadable
// directory, say); then Entries are the last good ones and absence of a name
// means nothing.
type Snapshot struct {
	Origin   string
	Location string    // for people: the directory or URL
	Seq      uint64    // grows with each complete, error-free read
	Read     time.Time // when this read ended
	Synced   bool
	Problem  string           // why not Synced, and what to do
	Entries  map[string]Entry // by proxy name; every name that is present, broken ones too
	Ignored  []string         // problems with files that name no proxy (a bad file name, say)
	// Identity tells what was read, a directory say, from another in its place.
	// It is set when Synced, to be kept over a restart; "": there is none.
	Identity string
}

// Entry is one proxy of a source.
type Entry struct {
	Name string
	File string // for people: where it was read
	// Spec is the last good spec; nil when there never was one.
	Spec *spec.Spec
	Hash spec.Hash // of Spec
	// Warnings are about Spec: what will not work as it looks.
	Warnings []string
	// Problems are those of the current content. When there are any, Spec is
	// an earlier version of it.
	Problems []string
}
