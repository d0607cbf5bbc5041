package image

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const (
	maxRecord  = 64 << 10 // bytes
	recordMode = 0o640
)

// WriteRecord puts the record of an incarnation in place, or replaces it. It
// refuses a record that Scan would not accept.
func (t *Tree) WriteRecord(rec observe.Record) error {
	if err := checkIDs(rec.Name, rec.Instance); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if rec.Version != observe.RecordVersion {
		return fmt.Errorf("write record of %s: version %d is not the current one", rec.Name, rec.Version)
	}
	if err := t.checkRecord(rec, rec.Name, rec.Instance); err != nil {
		return fmt.Errorf("write record of %s: %w", rec.Name, err)
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("write record of %s: %w", rec.Name, err)
	}
	dir, err := t.openSub(diskDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	final := rec.Name + "." + rec.Instance + recordSuffix
	if err := t.publish(dir, final, recordMode, content(append(data, '\n'))); err != nil {
		return fmt.Errorf("write record of %s: %w", rec.Name, err)
	}
	return nil
}

// parseRecord reads the record found beside the overlay of name and instance.
// The version is looked at first: a newer agent's record may have keys that
// this one does not know.
func (t *Tree) parseRecord(data []byte, name, instance string) (*observe.Record, error) {
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	if v.Version > observe.RecordVersion {
		return nil, fmt.Errorf("it has version %d, this agent knows %d: left alone, upgrade the agent", v.Version, observe.RecordVersion)
	}
	var rec observe.Record
	if err := decodeStrict(data, &rec); err != nil {
		return nil, err
	}
	if err := t.checkRecord(rec, name, instance); err != nil {
		return nil, err
	}
	return &rec, nil
}

// checkRecord tells whether a record is this host's and speaks of the
// incarnation whose files it lies beside.
func (t *Tree) checkRecord(rec observe.Record, name, instance string) error {
	if rec.Version < 1 {
		return errors.New("it has no version")
	}
	if rec.Host != t.host {
		return fmt.Errorf("it belongs to host %q, this one is %q: left alone", clip(rec.Host, maxQuoted), t.host)
	}
	if rec.Name != name || rec.Instance != instance {
		return fmt.Errorf("it speaks of %q, %q: left alone, somebody renamed or copied it", clip(rec.Name, maxQuoted), clip(rec.Instance, maxQuoted))
	}
	if id, err := uuid.Parse(rec.UUID); err != nil || id.String() != rec.UUID {
		return errors.New("its uuid is no UUID in canonical form")
	}
	if _, err := spec.ParseHash(rec.SpecHash); err != nil {
		return errors.New("its spec_hash is no spec hash")
	}
	if !validDigest(rec.Base) || !validFormat(rec.Format) {
		return errors.New("its base image is no digest with a format")
	}
	if rec.SeedSize < 0 || rec.Generation < 0 || rec.Created.IsZero() {
		return errors.New("its seed_size, generation or created is out of range")
	}
	return nil
}
