package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Version is the version of the document's form that is read.
const Version = 1

// Bounds of a document.
const (
	MaxBody     = 16 << 20  // bytes, decoded
	MaxProxies  = 1000      // more VMs than a host has room for
	MaxExpanded = 256 << 20 // bytes of user-data of all proxies together, each template counted where it is used
)

// Manifest is a document that was read whole and without a fault.
type Manifest struct {
	Host       string
	Revision   int64     // at least 1
	IssuedAt   time.Time // by the publisher's clock
	ExpiresAt  time.Time // zero: never; later it is only called stale
	AllowEmpty bool      // no proxies are meant
	Specs      []spec.Spec
	Digest     string // of its bytes: SHA-256, 64 hex digits
}

// Rules is what a document is held to.
type Rules struct {
	Name    string // of the document, for people: its URL, without anything secret
	Host    string // the one the document has to be for
	Catalog spec.Catalog
	// Remote is what the host's owner allows. Its zero value allows nothing.
	Remote spec.Remote
}

// digestOf names a document by its bytes.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
