// Package state is the only writer of the state directory: what must survive
// a restart of the agent and can not be read back from libvirt or the image
// tree. It decides nothing with it.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Version is the version of the state document that this package writes.
const Version = 1

const (
	fileName = "state.json"
	maxSize  = 1 << 20 // bytes
)

// Document is the state on disk.
type Document struct {
	Version int    `json:"version"`
	Host    string `json:"host"`
	// TreeKnown: the image tree had a marker of this host once.
	TreeKnown bool `json:"tree_known"`
}

// Store is one state directory.
type Store struct {
	dir  string
	host string
	doc  Document
}

// Open reads the state directory of a host, made with mode 0700 if it is
// missing. A document that can not be used (corrupt, of a newer version, of
// another host) is moved aside and reported as problem; what it said is then
// taken to be what forbids most. err is only for a directory that can not be
// used at all.
func Open(dir, hostID string) (s *Store, problem string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("state directory: %w", err)
	}
	s = &Store{dir: dir, host: hostID, doc: Document{Version: Version, Host: hostID}}
	doc, err := read(filepath.Join(dir, fileName), hostID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, "", nil
	case err != nil:
		problem = s.quarantine(err)
		if err := s.SetTreeKnown(); err != nil {
			return nil, problem, err
		}
		return s, problem, nil
	}
	s.doc = doc
	return s, "", nil
}

func read(path, hostID string) (Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return Document{}, err
	}
	defer f.Close()
	var d Document
	if err := json.NewDecoder(io.LimitReader(f, maxSize)).Decode(&d); err != nil {
		return d, fmt.Errorf("not a state document: %w", err)
	}
	if d.Version != Version {
		return d, fmt.Errorf("version %d, this agent reads %d", d.Version, Version)
	}
	if d.Host != hostID {
		return d, fmt.Errorf("of host id %s, this is %s", d.Host, hostID)
	}
	return d, nil
}

// PeekTreeKnown reads TreeKnown without making or moving anything. A missing
// document says false.
func PeekTreeKnown(dir, hostID string) (bool, error) {
	doc, err := read(filepath.Join(dir, fileName), hostID)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return doc.TreeKnown, err
}

func (s *Store) quarantine(why error) string {
	path := filepath.Join(s.dir, fileName)
	aside := path + ".rejected"
	msg := fmt.Sprintf("%s is not used (%v); moved to %s", path, why, aside)
	if err := os.Rename(path, aside); err != nil {
		msg = fmt.Sprintf("%s is not used (%v) and could not be moved aside: %v", path, why, err)
	}
	return msg
}

// TreeKnown tells whether the image tree had a marker of this host once.
func (s *Store) TreeKnown() bool { return s.doc.TreeKnown }

// SetTreeKnown keeps that the image tree has a marker of this host.
func (s *Store) SetTreeKnown() error {
	doc := s.doc
	doc.TreeKnown = true
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(s.dir, fileName), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	s.doc = doc
	return nil
}
