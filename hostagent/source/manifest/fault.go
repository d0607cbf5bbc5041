package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Reason is why a read of the manifest counts for nothing, as one word.
type Reason string

// The reasons there are. With each of them what was last taken stands.
const (
	NotFetched    Reason = "NotFetched"           // not since the agent started
	Unreachable   Reason = "Unreachable"          // no complete answer
	Credentials   Reason = "CredentialsMissing"   // or not readable: nothing was sent
	TooLarge      Reason = "TooLarge"             // for a manifest
	HTTPStatus    Reason = "HTTPStatus"           // an answer with another status than 200 and 304
	NotModified   Reason = "NotModifiedUnasked"   // 304 without anything that it could be about
	WrongType     Reason = "WrongType"            // the content is not called JSON
	Malformed     Reason = "Malformed"            // it is not one JSON object with each key once
	UnknownForm   Reason = "UnknownVersion"       // of the document's form
	WrongHost     Reason = "WrongHost"            // it is another host's
	Invalid       Reason = "Invalid"              // keys or values are wrong
	EmptyRefused  Reason = "EmptyRefused"         // no proxies, and not a word that this is meant
	PolicyRefused Reason = "PolicyRefused"        // the config does not allow what it asks
	Rollback      Reason = "RollbackRejected"     // a lower revision than one that was taken
	Equivocation  Reason = "EquivocationRejected" // another content of the same revision
	Unsigned      Reason = "UnsignedRejected"     // without a signature, after one with
	NotKept       Reason = "NotKept"              // it could not be written to the state directory
)

// Fault is why a read counts for nothing. Its text holds no user-data.
type Fault struct {
	Reason Reason
	Text   string // for people: where and what, and what to do
	Status int    // of HTTPStatus: which
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// like tells whether two faults are the same trouble. Of what the network says
// the wording does not count: ports, addresses and requests' ids change in it.
func (f *Fault) like(o *Fault) bool {
	switch {
	case f == nil || o == nil || f.Reason != o.Reason || f.Status != o.Status:
		return false
	case f.Reason == Unreachable, f.Reason == HTTPStatus:
		return true
	}
	return f.Text == o.Text
}

func faultf(r Reason, format string, a ...any) *Fault {
	return &Fault{Reason: r, Text: clip(fmt.Sprintf(format, a...), maxFault)}
}

const (
	maxFault = 2000 // bytes of a fault's text
	maxLines = 5    // problems of a document in one
)

// problems makes a fault of a document's problems, the first of them shown.
func problems(r Reason, err error) *Fault {
	var ps spec.Problems
	if !errors.As(err, &ps) {
		return faultf(r, "%v", err)
	}
	lines := ps.Lines()
	if len(lines) > maxLines {
		lines = append(lines[:maxLines:maxLines], fmt.Sprintf("and %d more", len(ps)-maxLines))
	}
	return faultf(r, "%s", strings.Join(lines, "; "))
}

// clip bounds a text at a character's edge.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
