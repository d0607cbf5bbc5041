package seed

import (
	"fmt"
	"io"
)

// maxContents is how many bytes of files Inspect reads at most: more than any
// seed of this package's making can hold.
const maxContents = MaxUserData + 4*MaxVendorData + MaxNetworkConfig + MaxMetaData

// Contents is what an image holds. The files are secrets.
type Contents struct {
	// Label is the volume label without its padding.
	Label string
	// Files are the files of the root directory by the name Linux shows for
	// them when an image has no Rock Ridge names: lower case, no version.
	Files map[string][]byte
	// VolumeSize is the size the volume descriptor records, in bytes. The
	// image itself may be longer by its padding.
	VolumeSize int64
}

// Inspect reads an image, of this package's making or of another's. It reads
// the files of the root directory through the plain ISO 9660 names and leaves
// directories out. It is bounded: an image with more than a seed can hold, with
// records that point outside it or with two files of one name is an error.
func Inspect(r io.ReaderAt) (Contents, error) {
	vol, err := readVolume(r)
	if err != nil {
		return Contents{}, fmt.Errorf("inspect seed: %w", err)
	}
	c := Contents{Label: vol.label, VolumeSize: vol.size, Files: make(map[string][]byte, len(vol.entries))}
	left := int64(maxContents)
	for _, e := range vol.entries {
		if _, twice := c.Files[e.name]; twice {
			return Contents{}, fmt.Errorf("inspect seed: two files named %q", e.name)
		}
		if left -= e.size; left < 0 {
			return Contents{}, fmt.Errorf("inspect seed: files of more than %d bytes are no seed", int64(maxContents))
		}
		data, err := io.ReadAll(io.NewSectionReader(r, e.offset, e.size))
		if err != nil {
			return Contents{}, fmt.Errorf("inspect seed: read %q: %w", e.name, err)
		}
		if int64(len(data)) < e.size {
			return Contents{}, fmt.Errorf("inspect seed: %q is cut off: %d of %d bytes", e.name, len(data), e.size)
		}
		c.Files[e.name] = data
	}
	return c, nil
}
