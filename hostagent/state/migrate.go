package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// oldName is the one document that earlier builds kept everything in.
const oldName = "state.json"

// theHost is where the old document's content belongs.
func theHost() place { return place{Host, "host"} }

// readOld takes the old document for the host's entry, unless there is one.
func (r reader) readOld(f *found, mode fs.FileMode) error {
	if f.has(theHost()) {
		f.stale = true
		return nil
	}
	data, err := r.load(filepath.Join(r.dir, oldName), mode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if exhausted(err) {
		return fmt.Errorf("read %s: %w", oldName, err)
	}
	var e Entry
	if err == nil {
		e, err = decodeOld(data, r.host)
	}
	if err != nil {
		f.bad = append(f.bad, bad{place: theHost(), why: err.Error(), old: true})
		return nil
	}
	f.entries, f.migrate = append(f.entries, e), true
	return nil
}

func decodeOld(data []byte, hostID string) (Entry, error) {
	var doc struct {
		Version   int    `json:"version"`
		Host      string `json:"host"`
		TreeKnown *bool  `json:"tree_known"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return Entry{}, fmt.Errorf("not a state document: %w", err)
	}
	switch {
	case doc.Version != 1:
		return Entry{}, fmt.Errorf("of version %d, this agent reads 1", doc.Version)
	case doc.Host != hostID:
		return Entry{}, fmt.Errorf("of host id %q, this is %q", clip(doc.Host), hostID)
	case doc.TreeKnown == nil:
		return Entry{}, errors.New("not a state document: it has no tree_known")
	}
	return Entry{Host, theHost().key, fmt.Appendf(nil, `{"tree_known":%t}`, *doc.TreeKnown)}, nil
}

// migrate writes what was read from the old document, then removes that. One
// that stayed beside its successor goes to what was rejected.
func (s *Store) migrate(f *found) (problem string) {
	path := filepath.Join(s.dir, oldName)
	var err error
	switch {
	case f.migrate:
		host := f.entries[len(f.entries)-1] // read last
		if err = s.put(host); err == nil {
			err = s.remove(path)
		}
	case f.stale:
		err = s.moveOld(s.aside(theHost()))
	}
	if err != nil {
		return fmt.Sprintf("%s of an earlier build could not be replaced, the next start tries again: %v", path, err)
	}
	return ""
}

func (s *Store) moveOld(aside string) error {
	if err := os.Rename(filepath.Join(s.dir, oldName), aside); err != nil {
		return err
	}
	if err := s.step("moved"); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(aside)), syncDir(s.dir))
}
