package seed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kdomanski/iso9660"
)

// imageUnit is what an image's length is a multiple of, in bytes, so that hosts
// with large disk sectors can open it for direct I/O.
const imageUnit = 64 << 10

// Image is a finished seed. Its bytes hold secrets: an Image prints as a
// summary without them.
type Image struct {
	// Bytes is the ISO 9660 image; its length is a multiple of 64 KiB.
	Bytes []byte
	// SHA256 is the digest of Bytes in 64 hex digits.
	SHA256 string
}

// Build makes the image of an Input. It is deterministic: equal inputs give
// equal bytes on every call, in every process and time zone.
//
// A bad Input gives one or more *InputError, see Validate. Any other error is
// about the staging directory (see UseStaging) and may pass: the library copies
// the files there while it works, and Build removes them on every path out.
// Build may be called concurrently.
func Build(in Input) (Image, error) {
	files, err := in.files()
	if err != nil {
		return Image{}, fmt.Errorf("build seed %q: %w", clip(in.InstanceID), err)
	}
	raw, err := write(files)
	if err != nil {
		return Image{}, fmt.Errorf("build seed %q: %w", clip(in.InstanceID), err)
	}
	img, err := finish(raw, files)
	if err != nil {
		return Image{}, fmt.Errorf("build seed %q: %w", clip(in.InstanceID), err)
	}
	return img, nil
}

// finish makes what the library wrote an Image: dates pinned, content verified.
func finish(raw []byte, files []file) (Image, error) {
	if err := pinDates(raw); err != nil {
		return Image{}, fmt.Errorf("pin dates: %w", err)
	}
	if err := verify(raw, files); err != nil {
		return Image{}, fmt.Errorf("verify image: %w", err)
	}
	sum := sha256.Sum256(raw)
	return Image{Bytes: raw, SHA256: hex.EncodeToString(sum[:])}, nil
}

// write returns the padded image as the library makes it.
func write(files []file) (_ []byte, err error) {
	w, err := stage(files)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Cleanup()) }()
	size := 20 * sectorSize // 16 unused, two descriptors, the directory, one spare
	for _, f := range files {
		size += roundUp(len(f.data), sectorSize)
	}
	var out bytes.Buffer
	out.Grow(roundUp(size, imageUnit))
	if err := w.WriteTo(&out, Label); err != nil {
		return nil, fmt.Errorf("write image: %w", err)
	}
	out.Write(make([]byte, roundUp(out.Len(), imageUnit)-out.Len()))
	return out.Bytes(), nil
}

// stage copies the files into a new directory of the library's, below
// os.TempDir. The caller has to call the writer's Cleanup.
func stage(files []file) (*iso9660.ImageWriter, error) {
	w, err := iso9660.NewWriter()
	if err != nil {
		return nil, fmt.Errorf("make staging directory: %w", err)
	}
	for _, f := range files {
		// Names are constants of this package: the library would let others
		// leave its directory.
		if err := w.AddFile(bytes.NewReader(f.data), f.name); err != nil {
			return nil, errors.Join(fmt.Errorf("stage %s: %w", f.name, err), w.Cleanup())
		}
	}
	return w, nil
}

// verify reads the image back. The files wait on disk between staging and
// writing; should something take one away there, the image must not go out
// without it.
func verify(raw []byte, files []file) error {
	vol, err := readVolume(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if vol.label != Label || len(vol.entries) != len(files) {
		return fmt.Errorf("label %q with %d files, want %q with %d; does another process use the staging directory?",
			vol.label, len(vol.entries), Label, len(files))
	}
	for i, e := range vol.entries {
		if e.name != files[i].name || e.offset+e.size > int64(len(raw)) ||
			!bytes.Equal(raw[e.offset:e.offset+e.size], files[i].data) {
			return fmt.Errorf("%s is not what was put in; does another process use the staging directory?", files[i].name)
		}
	}
	return nil
}

// roundUp returns the smallest multiple of unit that is at least n.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
