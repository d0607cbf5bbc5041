package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const version = 1 // of the envelope

// envelope is a file's content: one entry and where it belongs, or what to tell
// people about one that was lost.
type envelope struct {
	Version int             `json:"version"`
	Host    string          `json:"host"`
	Kind    Kind            `json:"kind"`
	Key     string          `json:"key"`
	Lost    string          `json:"lost,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

func encode(e envelope) ([]byte, error) {
	e.Version = version
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decode reads one whole envelope of this version.
func decode(data []byte) (envelope, error) {
	var e envelope
	// What a later version made otherwise fails too; its number is read even so.
	err := json.Unmarshal(data, &e)
	if e.Version > version {
		return e, fmt.Errorf("of version %d, this agent reads %d", e.Version, version)
	}
	if err != nil {
		return e, fmt.Errorf("not a state entry: %w", err)
	}
	if e.Version != version {
		return e, fmt.Errorf("of version %d, this agent reads %d", e.Version, version)
	}
	if (len(e.Body) == 0) == (e.Lost == "") {
		return e, errors.New("not a state entry: it needs a body, or must say that it was lost")
	}
	return e, nil
}

// belongs tells whether an envelope is that of a host at a place.
func (e envelope) belongs(hostID string, at place) error {
	if e.Host != hostID {
		return fmt.Errorf("of host id %q, this is %q", clip(e.Host), hostID)
	}
	if p := (place{e.Kind, e.Key}); p != at {
		return fmt.Errorf("it says that it is %q", p)
	}
	return nil
}
