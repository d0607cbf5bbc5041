package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const cluster = 64 << 10 // bytes of qcow2's clusters, by default

// filled makes a qcow2 image that holds so many bytes of data.
func filled(t *testing.T, size int) spec.Image {
	t.Helper()
	dir := t.TempDir()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i>>8) | 1
	}
	if err := os.WriteFile(filepath.Join(dir, "a.raw"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	qemu(t, dir, "convert", "-f", "raw", "-O", "qcow2", "a.raw", "a.qcow2")
	return entry(t, filepath.Join(dir, "a.qcow2"), "qcow2")
}

// TestCase072_AnImageThatWasCutShort: its digest was taken after it had been
// cut, so only its own tables tell.
func TestCase072_AnImageThatWasCutShort(t *testing.T) {
	t.Parallel()
	img := filled(t, 4*mib)
	whole, err := os.ReadFile(img.Source)
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []int{4, 100, 512, cluster, 2 * cluster, 4 * cluster, len(whole) / 2, len(whole) - 2*cluster} {
		if err := os.WriteFile(img.Source, whole[:keep], 0o600); err != nil {
			t.Fatal(err)
		}
		tree := newTree(t)
		_, err := tree.EnsureBase(t.Context(), entry(t, img.Source, "qcow2"), nil)
		var unfit *ImageError
		if !errors.As(err, &unfit) || observe.ClassOf(err) != observe.Permanent {
			t.Errorf("%d of %d bytes: %v", keep, len(whole), err)
		}
		empty(t, tree)
	}
}

// A cluster that nothing uses harms nobody.
func TestAnImageWithALeakServes(t *testing.T) {
	t.Parallel()
	img := filled(t, mib)
	data, err := os.ReadFile(img.Source)
	if err != nil {
		t.Fatal(err)
	}
	// The header has the offset of the table of refcount blocks at 48; a block
	// has two bytes for each cluster.
	table := binary.BigEndian.Uint64(data[48:])
	block := binary.BigEndian.Uint64(data[table:])
	last := (len(data) + cluster - 1) / cluster
	data = append(data, make([]byte, (last+1)*cluster-len(data))...)
	binary.BigEndian.PutUint16(data[block+uint64(2*last):], 1)
	if err := os.WriteFile(img.Source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(img.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := newTree(t)
	if _, err := tree.run(t.Context(), f, "check", "-q", "-U", "-f", "qcow2", qemuFD); exitCode(err) != exitLeaks {
		t.Fatalf("the test's image has no leak: %v", err)
	}
	if _, err := tree.EnsureBase(t.Context(), entry(t, img.Source, "qcow2"), nil); err != nil {
		t.Error(err)
	}
}

// An image that needs other files is refused, whether they are there or not.
func TestImagesThatNameOtherFiles(t *testing.T) {
	t.Parallel()
	needQemu(t)
	for name, args := range map[string][]string{
		"a backing file that is missing":    {"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "/nonexistent/base", "a", "1M"},
		"a backing file that is a device":   {"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "/dev/zero", "a", "1M"},
		"a backing file of another host":    {"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "nbd://192.0.2.1/x", "a", "1M"},
		"a backing file in JSON":            {"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", `json:{"driver":"null-co"}`, "a", "1M"},
		"a data file that is kept raw":      {"create", "-q", "-f", "qcow2", "-o", "data_file=d,data_file_raw=on", "a", "1M"},
		"of another hypervisor":             {"create", "-q", "-f", "vdi", "a", "1M"},
		"an overlay on one that is missing": {"create", "-q", "-u", "-f", "qcow2", "-F", "qcow2", "-b", "gone.qcow2", "a", "1M"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			qemu(t, dir, args...)
			if err := os.Remove(filepath.Join(dir, "d")); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			tree := newTree(t)
			_, err := tree.EnsureBase(t.Context(), entry(t, filepath.Join(dir, "a"), "qcow2"), nil)
			var unfit *ImageError
			if !errors.As(err, &unfit) {
				t.Errorf("EnsureBase = %v", err)
			}
			empty(t, tree)
		})
	}
}

// What qemu-img itself lacks says nothing of the image.
func TestAFailureOfQemuImgIsNotTheImages(t *testing.T) {
	t.Parallel()
	good := `{"format": "qcow2", "virtual-size": 1048576}`
	for _, body := range []string{
		"exit 127", "kill -9 $$", "echo nonsense",
		fmt.Sprintf(`case $1 in info) echo '%s' ;; *) exit 1 ;; esac`, good),
		fmt.Sprintf(`case $1 in info) echo '%s' ;; *) kill -9 $$ ;; esac`, good),
	} {
		img := image(t)
		img.Format = "qcow2"
		_, err := newTree(t, script(t, body)).EnsureBase(t.Context(), img, nil)
		var unfit *ImageError
		if err == nil || errors.As(err, &unfit) || !strings.Contains(err.Error(), "qemu-img") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
