package seed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", UserData: []byte("u"), VendorData: []byte("v"), NetworkConfig: []byte("version: 2")}
	want := Contents{Label: "cidata", VolumeSize: 23 * 2048, Files: map[string][]byte{
		"user-data": []byte("u"), "vendor-data": []byte("v"), "network-config": []byte("version: 2"),
		"meta-data": []byte("{\"instance-id\":\"i\"}\n"),
	}}
	if diff := cmp.Diff(want, mustInspect(t, mustBuild(t, in))); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

const (
	pvdAt  = 16 * 2048
	rootAt = 18 * 2048
	fileAt = rootAt + 68 // record of meta-data, behind "." and ".."
)

// Each of these images is broken in one place, and none may be believed.
func TestI15_InspectRefusesBrokenImages(t *testing.T) {
	t.Parallel()
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":                     func([]byte) []byte { return nil },
		"no volume":                 func(b []byte) []byte { return b[:pvdAt] },
		"half a descriptor":         func(b []byte) []byte { return b[:pvdAt+1000] },
		"other magic":               put(pvdAt+1, 'X'),
		"no primary descriptor":     put(pvdAt, 255),
		"endless descriptors":       func(b []byte) []byte { return endlessDescriptors() },
		"odd block size":            put(pvdAt+128, 0, 2),
		"root of 4 GiB":             put32(pvdAt+156+10, 1<<32-1),
		"root outside":              put32(pvdAt+156+2, 1<<32-1),
		"record too short":          put(rootAt, 33),
		"record over the sector":    recordOverSector,
		"name over the record":      put(fileAt+32, 255),
		"file outside":              put32(fileAt+2, 1<<32-1),
		"file of 4 GiB":             put32(fileAt+10, 1<<32-1),
		"file cut off":              func(b []byte) []byte { return b[:21*2048] },
		"interleaved":               put(fileAt+26, 1, 1),
		"several extents":           put(fileAt+25, 0x80),
		"two files of one name":     put(fileAt+33, []byte("user-data;1")...),
		"extended attributes moved": put(fileAt+1, 255),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := sample()
			in.NetworkConfig = nil // meta-data's and user-data's records are of one length
			c, err := Inspect(bytes.NewReader(damage(mustBuild(t, in).Bytes)))
			if err == nil {
				t.Errorf("read %d files", len(c.Files))
			}
		})
	}
}

// recordOverSector fills the root directory with long records, so that the last
// would end in the next sector.
func recordOverSector(b []byte) []byte {
	clear(b[rootAt : rootAt+2*2048])
	for at := rootAt; at < rootAt+8*255; at += 255 {
		b[at], b[at+32], b[at+33] = 255, 1, 0
	}
	b[rootAt+8*255], b[rootAt+8*255+32] = 34, 1
	binary.LittleEndian.PutUint32(b[pvdAt+156+10:], 2*2048)
	return b
}

// endlessDescriptors is an image of boot records that never says where it ends.
func endlessDescriptors() []byte {
	raw := make([]byte, 64*2048)
	for at := pvdAt; at < len(raw); at += 2048 {
		copy(raw[at:], "\x00CD001\x01")
	}
	return raw
}

// Files that are all there, but more than a seed can be.
func TestI15_InspectIsBounded(t *testing.T) {
	t.Parallel()
	raw := mustBuild(t, sample()).Bytes
	for at, n := fileAt, 0; n < 4; at, n = at+int(raw[at]), n+1 {
		binary.LittleEndian.PutUint32(raw[at+10:], maxContents/4+1)
	}
	if c, err := Inspect(zeroTail(raw)); err == nil {
		t.Errorf("read %d files", len(c.Files))
	}
}

// zeroTail reads as its bytes with zeros behind them without end.
type zeroTail []byte

func (z zeroTail) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if at < int64(len(z)) {
		copy(p, z[at:])
	}
	return len(p), nil
}

func TestI15_InspectGivesUpOnEndlessDescriptors(t *testing.T) {
	t.Parallel()
	r := &bootRecords{most: maxDescriptors}
	if _, err := Inspect(r); !errors.Is(err, errNotISO) {
		t.Errorf("after %d reads: %v, want %v", r.reads, err, errNotISO)
	}
}

// bootRecords is a volume of nothing but boot records that fails a reader who
// wants more than most of them.
type bootRecords struct{ reads, most int }

func (r *bootRecords) ReadAt(p []byte, _ int64) (int, error) {
	if r.reads++; r.reads > r.most {
		return 0, errDisk
	}
	clear(p)
	copy(p, "\x00CD001\x01")
	return len(p), nil
}

func TestInspectPassesReadErrorsOn(t *testing.T) {
	t.Parallel()
	if _, err := Inspect(failingReader{}); !errors.Is(err, errDisk) {
		t.Errorf("%v, want the disk's error", err)
	}
}

var errDisk = errors.New("disk on fire")

type failingReader struct{}

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

// Whatever is written over the descriptors and the directory of an image,
// reading it ends, without a panic and within bounds.
func FuzzInspect(f *testing.F) {
	good := mustBuild(f, sample()).Bytes
	f.Add([]byte{255}, uint16(0))
	f.Add([]byte("\x00CD001\x01"), uint16(2048))
	f.Add([]byte{255, 255, 255, 255}, uint16(156+10))
	f.Add([]byte{34, 0}, uint16(rootAt-pvdAt+68))
	f.Fuzz(func(t *testing.T, patch []byte, at uint16) {
		raw := bytes.Clone(good)
		copy(raw[min(pvdAt+int(at), len(raw)):], patch)
		c, err := Inspect(bytes.NewReader(raw))
		if err != nil {
			return
		}
		total := 0
		for _, data := range c.Files {
			total += len(data)
		}
		if total > maxContents {
			t.Errorf("%d bytes of files", total)
		}
	})
}
