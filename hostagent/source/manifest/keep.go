package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// Keys of entries of kind state.Manifest. A document goes to the slot that the
// one before it is not in, so that this stays until the next.
const ratchetKey = "ratchet"

var slots = [...]string{"document-0", "document-1"}

// document is an entry: a body with all that belongs to it, in one piece.
type document struct {
	Number   uint64    `json:"number"` // of documents taken, this one included
	Revision int64     `json:"revision"`
	Key      string    `json:"key,omitempty"`  // whose signature it has
	Digest   string    `json:"digest"`         // of what is signed
	ETag     string    `json:"etag,omitempty"` // that the server gave to the body
	Location string    `json:"location"`       // where it was fetched, without anything secret
	Fetched  time.Time `json:"fetched_at"`
	Sum      string    `json:"sum"` // SHA-256 of the body
	Body     []byte    `json:"body"`
}

// marks is the ratchet's entry. Documents up to Number are in it.
type marks struct {
	Number uint64  `json:"number"`
	Keys   Ratchet `json:"keys"`
}

func (d document) mark() Mark { return Mark{d.Revision, d.Digest} }

// kept is what an earlier run left.
type kept struct {
	document document // Number 0: none that can be used
	marks    marks
	problem  string // why there is none, if there was one
}

// readKept reads the entries of an earlier run. Only the newest document
// counts: an older one may list what was removed since.
func readKept(entries []state.Entry) (k kept) {
	newest := document{}
	for _, e := range entries {
		if e.Kind != state.Manifest {
			continue
		}
		var err error
		if e.Key == ratchetKey {
			err = e.Decode(&k.marks)
		} else {
			var d document
			if d, err = readDocument(e); err == nil && d.Number > newest.Number {
				newest = d
			}
		}
		if err != nil {
			k.problem = fmt.Sprintf("the manifest kept in state entry %s/%s is not used: %v", e.Kind, e.Key, err)
		}
	}
	switch {
	case newest.Number < k.marks.Number:
		if k.problem == "" {
			k.problem = "the manifest that was taken last is not in the state directory any more"
		}
	case newest.Number > 0:
		if newest.Number > k.marks.Number { // the agent ended before the ratchet was written
			k.marks = marks{newest.Number, k.marks.Keys.With(newest.Key, newest.mark())}
		}
		k.document, k.problem = newest, "" // of no interest: the other document is older
	}
	return k
}

func readDocument(e state.Entry) (document, error) {
	var d document
	if err := e.Decode(&d); err != nil {
		return d, err
	}
	if d.Number == 0 || digestOf(d.Body) != d.Sum {
		return d, errors.New("its body is not the one that was written")
	}
	return d, nil
}

// changes are what writes a document and the ratchet with it, in this order:
// a document that is newer than the ratchet is counted when it is read.
func changes(d document, m marks) ([]state.Change, error) {
	doc, err := put(slots[d.Number%uint64(len(slots))], d)
	if err != nil {
		return nil, err
	}
	ratchet, err := put(ratchetKey, m)
	return []state.Change{doc, ratchet}, err
}

func put(key string, body any) (state.Change, error) {
	data, err := json.Marshal(body)
	return state.Change{Entry: state.Entry{Kind: state.Manifest, Key: key, Body: data}}, err
}
