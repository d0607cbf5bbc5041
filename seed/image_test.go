package seed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
)

// documents are user-data in every form that was seen to be damaged by some
// tool, and the sizes at which an image's layout changes.
func documents(t testing.TB) map[string][]byte {
	docs := map[string][]byte{
		"shell":                 []byte("#!/bin/sh\n# c\necho \"$HOME\" `date` $(id) %d\n"),
		"include":               []byte("#include\nhttp://192.0.2.1/user-data\n"),
		"boothook":              []byte("#cloud-boothook\n#!/bin/sh\necho\n"),
		"archive":               []byte("#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    a: 1\n"),
		"part-handler":          []byte("#part-handler\ndef list_types():\n\treturn []\n"),
		"gzip of MIME":          zip(t, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n\u00fc\n--B--\n"),
		"MIME CRLF":             []byte("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nx\r\n--B--\r\n"),
		"comments and template": []byte("## template: jinja\n#cloud-config\n# {% set v='1' %}\na: {{ v1.local_hostname }} $HOME %d\n"),
		"scalars":               []byte("#cloud-config\nversion: 1.10\nwrite_files: [{path: /x, permissions: \"0755\", content: \"yes\"}]\nv: [on, 1e3, 0123, 12:30]\n"),
		"CRLF":                  []byte("#!/bin/sh\r\necho\r\n"),
		"BOM":                   []byte("\xef\xbb\xbf#cloud-config\n"),
		"UTF-8":                 []byte("# gr\u00f6\u00dfe \u2713 \u65e5\u672c \U0001F98A\n"),
		"latin-1":               []byte("#cloud-config\n# gr\xf6\xdfe\n"),
		"NUL":                   []byte("#cloud-config\n\x00\x00a: 1\n\x00"),
		"gzip":                  zip(t, "#cloud-config\na: 1\n"),
		"gzip of gzip":          zip(t, string(zip(t, "x"))),
		"looks like base64":     []byte("I2Nsb3VkLWNvbmZpZwo="),
		"MIME":                  []byte("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nx\n--B--\n"),
		"no final newline":      []byte("#cloud-config\na: 1"),
		"trailing blanks":       []byte("\n\n #cloud-config \n\n\t\n"),
		"NoCloud's own names":   []byte("user-data\nmeta-data\n../../etc/passwd\n"),
		"plain 40 KiB":          bytes.Repeat([]byte("packages: [squid]\n"), 40<<10/18),
	}
	for _, n := range []int{0, 1, 2047, 2048, 2049, 64<<10 - 1, 64 << 10, 1 << 20, 6 << 20, 20 << 20} {
		docs[fmt.Sprintf("%d bytes", n)] = noise(n)
	}
	return docs
}

// noise returns n bytes without any pattern, the same on every call.
func noise(n int) []byte {
	out := make([]byte, 0, n+sha256.Size)
	for block := sha256.Sum256(nil); len(out) < n; block = sha256.Sum256(block[:]) {
		out = append(out, block[:]...)
	}
	return out[:n]
}

// libraryFiles reads an image with the reader of the library that wrote it.
func libraryFiles(t testing.TB, img Image) (string, map[string][]byte) {
	t.Helper()
	r, err := iso9660.OpenImage(bytes.NewReader(img.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	label, err := r.Label()
	if err != nil {
		t.Fatal(err)
	}
	root, err := r.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range children {
		data := new(bytes.Buffer)
		if _, err := data.ReadFrom(f.Reader()); err != nil {
			t.Fatal(err)
		}
		files[f.Name()] = data.Bytes()
	}
	return label, files
}

func TestI07_Seed03_UserDataByteIdentical(t *testing.T) {
	t.Parallel()
	for name, doc := range documents(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := bytes.Clone(doc)
			img := mustBuild(t, Input{InstanceID: "i", UserData: given, GuestAgent: true})
			if !bytes.Equal(given, doc) {
				t.Error("Build changed its input")
			}
			if _, files := libraryFiles(t, img); !bytes.Equal(files[UserDataFile], doc) {
				t.Errorf("library reads %d bytes that differ from the %d put in", len(files[UserDataFile]), len(doc))
			}
			if got := mustInspect(t, img).Files[UserDataFile]; !bytes.Equal(got, doc) {
				t.Errorf("Inspect reads %d bytes that differ from the %d put in", len(got), len(doc))
			}
			if len(img.Bytes)%(64<<10) != 0 {
				t.Errorf("length %d is no multiple of 64 KiB", len(img.Bytes))
			}
		})
	}
}

func TestSeed01_ImageHasExactlyTheFilesItNeeds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		in   Input
		want []string
	}{
		{"least", Input{}, []string{"meta-data", "user-data"}},
		{"network", Input{NetworkConfig: []byte("version: 2\n")}, []string{"meta-data", "network-config", "user-data"}},
		{"empty network", Input{NetworkConfig: []byte{}}, []string{"meta-data", "user-data"}},
		{"vendor", Input{VendorData: []byte("x")}, []string{"meta-data", "user-data", "vendor-data"}},
		{"agent", Input{GuestAgent: true}, []string{"meta-data", "user-data", "vendor-data"}},
		{"all", sample(), []string{"meta-data", "network-config", "user-data", "vendor-data"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.in.InstanceID = strings.Repeat("i", 64)
			img := mustBuild(t, test.in)
			label, files := libraryFiles(t, img)
			if label = strings.TrimRight(label, " "); label != "cidata" {
				t.Errorf("label %q", label)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(files))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if sum := sha256.Sum256(img.Bytes); img.SHA256 != hex.EncodeToString(sum[:]) {
				t.Error("SHA256 is not that of Bytes")
			}
		})
	}
}

func TestI07_Seed13_NetworkConfigByteIdentical(t *testing.T) {
	t.Parallel()
	doc := []byte("# c\r\nversion: 2\r\nethernets: {a: {match: {macaddress: '56:00:00:00:00:01'}}}")
	got := mustInspect(t, mustBuild(t, Input{InstanceID: "i", NetworkConfig: doc})).Files
	if diff := cmp.Diff(string(doc), string(got[NetworkConfigFile])); diff != "" {
		t.Errorf("network-config (-want +got):\n%s", diff)
	}
}

func TestI12_BuildLeavesNothingStaged(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	mustBuild(t, sample())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	if img, err := Build(sample()); err == nil || img.Bytes != nil {
		t.Error("built without a staging directory")
	} else if len(fields(err)) > 0 {
		t.Errorf("a passing trouble is given out as a bad input: %v", err)
	}
}

// A file that somebody takes out of the staging directory must not go missing
// in the guest.
func TestBuildSeesWhatStagingLost(t *testing.T) {
	t.Parallel()
	files, err := sample().files()
	if err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(files)
	changed[2].data = append([]byte("x"), changed[2].data[1:]...)
	for name, staged := range map[string][]file{"lost": files[1:], "changed": changed, "whole": files} {
		raw, err := write(staged)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := finish(raw, files); (err == nil) != (name == "whole") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeed10_ConcurrentBuilds(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			in := sample()
			in.InstanceID = fmt.Sprintf("i-%d", i)
			in.UserData = noise(i * 1000)
			img, err := Build(in)
			if err != nil {
				t.Error(err)
				return
			}
			c, err := Inspect(bytes.NewReader(img.Bytes))
			if err != nil || !bytes.Equal(c.Files[UserDataFile], in.UserData) || !bytes.Equal(c.Files[MetaDataFile], in.metaData()) {
				t.Errorf("image %d is not its own: %v", i, err)
			}
		})
	}
	wg.Wait()
}
