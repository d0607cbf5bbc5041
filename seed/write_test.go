package seed

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// overwriteImage returns one of two images of different content and length.
func overwriteImage(i int) Image {
	return Image{Bytes: bytes.Repeat([]byte{byte('a' + i%2)}, (1+i%2)<<20)}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSeed08_WriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.i-1.iso")
	old := syscall.Umask(0o077) // must not take the group's right to read away
	defer syscall.Umask(old)
	for i, mode := range []os.FileMode{0o600, 0o640} {
		if err := WriteFile(path, mode, overwriteImage(i)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, overwriteImage(i).Bytes) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if diff := cmp.Diff([]string{"p.i-1.iso"}, dirNames(t, dir)); diff != "" {
		t.Errorf("directory (-want +got):\n%s", diff)
	}
}

// The temporary file lies beside the final one, wherever TMPDIR points.
func TestSeed08_WriteFileStaysInTheDirectory(t *testing.T) {
	elsewhere := t.TempDir()
	t.Setenv("TMPDIR", elsewhere)
	then := time.Unix(1e9, 0)
	if err := os.Chtimes(elsewhere, then, then); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "p.iso"), 0o600, overwriteImage(0)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(elsewhere); err != nil || !info.ModTime().Equal(then) {
		t.Errorf("TMPDIR was used at %v, %v", info.ModTime(), err)
	}
}

// A QEMU that has the old image open goes on reading the old image.
func TestSeed08_Case022_WriteFileKeepsOpenInode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.iso")
	if err := WriteFile(path, 0o600, overwriteImage(0)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := WriteFile(path, 0o600, overwriteImage(1)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(f); err != nil || !bytes.Equal(got.Bytes(), overwriteImage(0).Bytes) {
		t.Errorf("open file changed: %d bytes, %v", got.Len(), err)
	}
}

func TestI12_WriteFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d.iso"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		mode       os.FileMode
		img        Image
	}{
		{"world readable", "a.iso", 0o644, overwriteImage(0)},
		{"group writable", "a.iso", 0o660, overwriteImage(0)},
		{"setuid", "a.iso", 0o600 | os.ModeSetuid, overwriteImage(0)},
		{"no image", "a.iso", 0o600, Image{}},
		{"onto a directory", "d.iso", 0o600, overwriteImage(0)},
		{"into nothing", "none/a.iso", 0o600, overwriteImage(0)},
	} {
		if err := WriteFile(filepath.Join(dir, test.path), test.mode, test.img); err == nil {
			t.Errorf("%s: written", test.name)
		}
	}
	if diff := cmp.Diff([]string{"d.iso"}, dirNames(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}

func TestSeed08_WriteFileWithoutSpaceChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "p.iso")
	if err := WriteFile(path, 0o600, overwriteImage(0)); err != nil {
		t.Fatal(err)
	}
	if err := child(t, "full", "TARGET="+path).Run(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, overwriteImage(0).Bytes) {
		t.Errorf("old image: %d bytes, %v", len(got), err)
	}
	if diff := cmp.Diff([]string{"p.iso"}, dirNames(t, dir)); diff != "" {
		t.Errorf("directory (-want +got):\n%s", diff)
	}
}

// Whenever one looks, and after a kill, the final name holds a whole image; and
// what the kill left has a name that IsTemp knows.
func TestSeed08_Case022_WriteFileIsNeverHalf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "p.iso")
	if err := WriteFile(path, 0o640, overwriteImage(0)); err != nil {
		t.Fatal(err)
	}
	cmd := child(t, "overwrite", "TARGET="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole := func() int {
		got, err := os.ReadFile(path)
		for i := range 2 {
			if err == nil && bytes.Equal(got, overwriteImage(i).Bytes) {
				return i
			}
		}
		t.Fatalf("%d bytes, %v: neither image", len(got), err)
		return -1
	}
	for turns, last := 0, 0; turns < 6 && t.Context().Err() == nil; {
		if now := whole(); now != last {
			turns, last = turns+1, now
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says only that it was killed
	whole()
	for _, name := range dirNames(t, dir) {
		if name != "p.iso" && !IsTemp(name) {
			t.Errorf("left behind under the name %q", name)
		}
	}
}

func TestIsTemp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".p.i-1.iso123": true, "p.i-1.iso": false, ".p.iso": false, ".iso1": false,
		"p.iso1": false, ".p.iso1x": false, ".p.json1": false, "": false,
	} {
		if got := IsTemp(name); got != want {
			t.Errorf("IsTemp(%q) = %t, want %t", name, got, want)
		}
	}
}
