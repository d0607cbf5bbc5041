package seed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sampleFile writes the sample's image and returns its path and files.
func sampleFile(t *testing.T) (string, map[string][]byte) {
	t.Helper()
	img := mustBuild(t, sample())
	path := filepath.Join(t.TempDir(), "seed.iso")
	if err := WriteFile(path, 0o600, img); err != nil {
		t.Fatal(err)
	}
	return path, mustInspect(t, img).Files
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out
}

func TestBlkidSeesTheLabel(t *testing.T) {
	t.Parallel()
	blkid := needTool(t, "blkid", "util-linux")
	path, _ := sampleFile(t)
	got := map[string]string{}
	for line := range strings.Lines(string(run(t, blkid, "-p", "-o", "export", path))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && (key == "TYPE" || key == "LABEL") {
			got[key] = value
		}
	}
	if diff := cmp.Diff(map[string]string{"TYPE": "iso9660", "LABEL": "cidata"}, got); diff != "" {
		t.Errorf("blkid (-want +got):\n%s", diff)
	}
}

func TestIsoinfoReadsTheFiles(t *testing.T) {
	t.Parallel()
	isoinfo := needTool(t, "isoinfo", "genisoimage")
	path, files := sampleFile(t)
	if info := string(run(t, isoinfo, "-d", "-i", path)); !strings.Contains(info, "Volume id: cidata\n") {
		t.Errorf("isoinfo -d:\n%s", info)
	}
	names := strings.Fields(string(run(t, isoinfo, "-f", "-i", path)))
	if diff := cmp.Diff([]string{"/meta-data;1", "/network-config;1", "/user-data;1", "/vendor-data;1"}, names); diff != "" {
		t.Errorf("isoinfo -f (-want +got):\n%s", diff)
	}
	for name, want := range files {
		if got := run(t, isoinfo, "-i", path, "-x", "/"+name+";1"); !bytes.Equal(got, want) {
			t.Errorf("%s: isoinfo reads %d bytes that differ from the %d put in", name, len(got), len(want))
		}
	}
}

func TestXorrisoReadsTheFiles(t *testing.T) {
	t.Parallel()
	xorriso := needTool(t, "xorriso", "xorriso")
	path, files := sampleFile(t)
	into := filepath.Join(t.TempDir(), "out")
	run(t, xorriso, "-no_rc", "-osirrox", "on", "-indev", path, "-extract", "/", into)
	entries, err := os.ReadDir(into)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	for _, e := range entries {
		if got[e.Name()], err = os.ReadFile(filepath.Join(into, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(files, got); diff != "" {
		t.Errorf("xorriso (-want +got):\n%s", diff)
	}
}

// A seed of another's making, with Rock Ridge and Joliet, is readable too.
func TestInspectReadsForeignImages(t *testing.T) {
	t.Parallel()
	genisoimage := needTool(t, "genisoimage", "genisoimage")
	dir := t.TempDir()
	for _, name := range []string{"user-data", "meta-data"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-r", "-J"}, {"-l", "-relaxed-filenames"}} {
		path := filepath.Join(t.TempDir(), "seed.iso")
		run(t, genisoimage, append(flags, "-quiet", "-V", "CIDATA", "-o", path, dir)...)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		c, err := Inspect(f)
		if err != nil {
			t.Fatal(err)
		}
		contents := map[string]bool{}
		for _, data := range c.Files {
			contents[string(data)] = true
		}
		if c.Label != "CIDATA" || c.VolumeSize == 0 || !contents["user-data"] || !contents["meta-data"] || len(c.Files) != 2 {
			t.Errorf("%v: label %q, size %d, files %q", flags, c.Label, c.VolumeSize, c.Files)
		}
	}
}
