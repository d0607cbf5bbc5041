package seed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The parts of ECMA-119 that a seed needs, with the section each comes from.
// The library's own reader is not used on images: it panics on some broken
// ones, and the dates are pinned with the same offsets in any case.
const (
	sectorSize = 2048

	firstDescriptor = 16  // sector of the first volume descriptor (6.7.1.1)
	maxDescriptors  = 16  // how many of them are looked at
	pvdLabel        = 40  // 32 bytes (8.4.7)
	pvdSpace        = 80  // volume size in blocks (8.4.8)
	pvdBlockSize    = 128 // (8.4.12)
	pvdRoot         = 156 // the root directory's record, 34 bytes (8.4.18)
	pvdCreated      = 813 // 17 bytes each (8.4.26)
	pvdModified     = 830 // (8.4.27)
	pvdEffective    = 864 // (8.4.29)
	minRecord       = 34  // shortest directory record (9.1)
	recordDate      = 18  // 7 bytes (9.1.5)
	flagDirectory   = 0x02
	flagMultiExtent = 0x80
	maxDirectory    = 64 << 10 // bytes of root directory that are read
)

var errNotISO = errors.New("no ISO 9660 volume found")

// volume is what the primary descriptor and the root directory say.
type volume struct {
	label      string
	size       int64 // bytes, as recorded
	descriptor int64 // offset of the primary volume descriptor
	root       entry
	entries    []entry // files of the root directory, in recorded order
}

// entry is a file or directory and where its content lies, in bytes.
type entry struct {
	name         string
	offset, size int64
}

// readVolume reads the primary descriptor and the root directory, never more
// than maxDescriptors sectors and maxDirectory bytes. It does not check that
// the files' content is there.
func readVolume(r io.ReaderAt) (volume, error) {
	vol, err := readDescriptor(r)
	if err != nil {
		return volume{}, err
	}
	dir, err := readDirectory(r, vol.root)
	if err != nil {
		return volume{}, err
	}
	err = eachRecord(dir, func(rec []byte) error {
		name := recordName(rec)
		if name == "" || rec[25]&flagDirectory != 0 {
			return nil
		}
		if rec[25]&flagMultiExtent != 0 || rec[26] != 0 || rec[27] != 0 {
			return fmt.Errorf("file %q: several extents or interleaving are not supported", name)
		}
		e := recordEntry(rec)
		e.name = name
		vol.entries = append(vol.entries, e)
		return nil
	})
	return vol, err
}

func readDescriptor(r io.ReaderAt) (volume, error) {
	sector := make([]byte, sectorSize)
	for i := range int64(maxDescriptors) {
		at := (firstDescriptor + i) * sectorSize
		if _, err := r.ReadAt(sector, at); err != nil && !errors.Is(err, io.EOF) {
			return volume{}, fmt.Errorf("read volume descriptor: %w", err)
		} else if err != nil || string(sector[1:6]) != "CD001" || sector[0] == 255 {
			return volume{}, errNotISO
		}
		if sector[0] != 1 {
			continue
		}
		if n := binary.LittleEndian.Uint16(sector[pvdBlockSize:]); n != sectorSize {
			return volume{}, fmt.Errorf("logical blocks of %d bytes are not supported", n)
		}
		return volume{
			label:      strings.TrimRight(string(sector[pvdLabel:pvdLabel+32]), " \x00"),
			size:       int64(binary.LittleEndian.Uint32(sector[pvdSpace:])) * sectorSize,
			descriptor: at,
			root:       recordEntry(sector[pvdRoot : pvdRoot+minRecord]),
		}, nil
	}
	return volume{}, errNotISO
}

func readDirectory(r io.ReaderAt, root entry) ([]byte, error) {
	if root.size > maxDirectory {
		return nil, fmt.Errorf("root directory of %d bytes is larger than a seed's (at most %d)", root.size, maxDirectory)
	}
	dir := make([]byte, root.size)
	if n, err := r.ReadAt(dir, root.offset); n < len(dir) {
		return nil, fmt.Errorf("read root directory: %w", err)
	}
	return dir, nil
}

// eachRecord calls fn for every record of a directory. Records do not cross
// sectors; a zero length sends the reader to the next one (6.8.1.1).
func eachRecord(dir []byte, fn func(rec []byte) error) error {
	for at := 0; at < len(dir); {
		n := int(dir[at])
		if n == 0 {
			at = roundUp(at+1, sectorSize)
			continue
		}
		if n < minRecord || at+n > len(dir) || at%sectorSize+n > sectorSize || 33+int(dir[at+32]) > n {
			return fmt.Errorf("root directory is broken at byte %d", at)
		}
		if err := fn(dir[at : at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// recordEntry reads location (9.1.3, behind any extended attributes, 9.1.2) and
// length (9.1.4).
func recordEntry(rec []byte) entry {
	block := int64(binary.LittleEndian.Uint32(rec[2:])) + int64(rec[1])
	return entry{offset: block * sectorSize, size: int64(binary.LittleEndian.Uint32(rec[10:]))}
}

// recordName returns a record's name as Linux shows it: lower case, without
// version and final dot; "" for the directory itself and its parent.
func recordName(rec []byte) string {
	id := rec[33 : 33+int(rec[32])]
	if len(id) == 1 && id[0] <= 1 {
		return ""
	}
	name, _, _ := bytes.Cut(id, []byte(";"))
	return strings.ToLower(strings.TrimSuffix(string(name), "."))
}

// pinDates overwrites every date in the image, so that nothing in it depends on
// when it was made: the volume's with 2000-01-01 00:00:00 UTC, the records' too.
func pinDates(raw []byte) error {
	vol, err := readVolume(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	pvd := raw[vol.descriptor : vol.descriptor+sectorSize]
	for _, at := range []int{pvdCreated, pvdModified, pvdEffective} {
		copy(pvd[at:], "2000010100000000\x00")
	}
	pin := func(rec []byte) error {
		copy(rec[recordDate:], []byte{100, 1, 1, 0, 0, 0, 0})
		return nil
	}
	_ = pin(pvd[pvdRoot : pvdRoot+minRecord])
	return eachRecord(raw[vol.root.offset:vol.root.offset+vol.root.size], pin)
}
