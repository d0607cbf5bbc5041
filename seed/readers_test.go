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

func TestSeed02_Case019_BlkidSeesTheLabel(t *testing.T) {
	t.Parallel()
	blkid := needTool(t, "blkid", "util-linux")
	in := sample()
	in.InstanceID = strings.Repeat("x", 64) // the label is no part of it
	path := filepath.Join(t.TempDir(), "seed.iso")
	if err := WriteFile(path, 0o600, mustBuild(t, in)); err != nil {
		t.Fatal(err)
	}
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

func TestSeed31_Case017_IsoinfoReadsTheFiles(t *testing.T) {
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

func TestSeed31_Case017_XorrisoReadsTheFiles(t *testing.T) {
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

// Two readers that know nothing of ours give user-data back as it was, in every
// format and size.
func TestI07_Seed03_Case012_TwoReadersGetUserDataByteIdentical(t *testing.T) {
	t.Parallel()
	isoinfo, xorriso := needTool(t, "isoinfo", "genisoimage"), needTool(t, "xorriso", "xorriso")
	for name, doc := range documents(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, out := filepath.Join(dir, "seed.iso"), filepath.Join(dir, "user-data")
			if err := WriteFile(path, 0o600, mustBuild(t, Input{InstanceID: "i", UserData: doc, GuestAgent: true})); err != nil {
				t.Fatal(err)
			}
			if got := run(t, isoinfo, "-i", path, "-x", "/user-data;1"); !bytes.Equal(got, doc) {
				t.Errorf("isoinfo reads %d bytes that differ from the %d put in", len(got), len(doc))
			}
			run(t, xorriso, "-no_rc", "-osirrox", "on", "-indev", path, "-extract", "/user-data", out)
			if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, doc) {
				t.Errorf("xorriso reads %d bytes that differ from the %d put in (%v)", len(got), len(doc), err)
			}
		})
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
