package program

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBuild builds each mode and looks at the image from outside: bootable, of
// the size that is promised, small, and nothing else left in the directory.
func TestBuild(t *testing.T) {
	t.Parallel()
	for m := Idle; m <= Button; m++ {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, err := Build(dir, m)
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, m.String()+".qcow2"); path != want {
				t.Errorf("path %s, want %s", path, want)
			}
			checkSizes(t, path)
			checkBootSector(t, path)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("in the directory: %v, %v; want the image alone", entries, err)
			}
		})
	}
}

func checkSizes(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command("qemu-img", "info", "--output=json", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Format      string `json:"format"`
		VirtualSize int64  `json:"virtual-size"`
		ActualSize  int64  `json:"actual-size"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		t.Fatal(err)
	}
	if info.Format != "qcow2" || info.VirtualSize != Size || info.ActualSize > 1<<20 {
		t.Errorf("image is %+v, want qcow2, %d and at most 1 MiB", info, Size)
	}
}

func checkBootSector(t *testing.T, path string) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	if err := run("qemu-img", "convert", "-O", "raw", path, raw); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var mark [2]byte
	if _, err := f.ReadAt(mark[:], 510); err != nil || mark != [2]byte{0x55, 0xaa} {
		t.Errorf("boot sector ends in % x (%v), want 55 aa", mark, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for _, m := range []Mode{0, Button + 1, -1} {
		if path, err := Build(t.TempDir(), m); err == nil {
			t.Errorf("Build(%v) made %s, want an error", m, path)
		}
	}
	if _, err := Build(filepath.Join(t.TempDir(), "missing"), Idle); err == nil {
		t.Error("Build in a missing directory: no error")
	}
}
