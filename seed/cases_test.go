package seed

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// through fails unless user-data comes back from an image as it was.
func through(t *testing.T, doc []byte) {
	t.Helper()
	given := bytes.Clone(doc)
	img := mustBuild(t, Input{InstanceID: "i", UserData: given, Vars: map[string]string{"v1": "x"}, GuestAgent: true})
	_, files := libraryFiles(t, img)
	if !bytes.Equal(files[UserDataFile], doc) || !bytes.Equal(given, doc) {
		t.Errorf("%.40q... came back as %.40q...", doc, files[UserDataFile])
	}
}

func TestCase001_ScalarsAreNotRetyped(t *testing.T) {
	t.Parallel()
	through(t, []byte("#cloud-config\nwrite_files: [{path: /x, permissions: \"0755\", content: \"yes\"}]\nv: [on, 1e3, 0123, 12:30]\n"))
}

func TestCase003_TemplatesAndCommentsStay(t *testing.T) {
	t.Parallel()
	through(t, []byte("## template: jinja\n#cloud-config\n# {% set v='1' %}\na: {{ v1.local_hostname }} $HOME ${X} %d %%\n"))
}

func TestCase005_LineEndsStay(t *testing.T) {
	t.Parallel()
	through(t, []byte("#!/bin/sh\r\necho a\r\n\recho b\n"))
}

func TestCase007_EncodingsStay(t *testing.T) {
	t.Parallel()
	through(t, []byte("#cloud-config\n# gr\u00f6\u00dfe \u2713 \u65e5\u672c\n"))
	through(t, []byte("#cloud-config\n# gr\xf6\xdfe\n"))
}

func TestCase010_NothingIsCompressedOrUnpacked(t *testing.T) {
	t.Parallel()
	through(t, bytes.Repeat([]byte("packages: [squid]\n"), 40<<10/18))
	through(t, zip(t, "#cloud-config\n"))
}

// Base64 is a matter of specs: here one layer more or less would be a change.
func TestCase011_NoEncodingIsGuessed(t *testing.T) {
	t.Parallel()
	through(t, []byte(base64.StdEncoding.EncodeToString(zip(t, "#cloud-config\n"))))
	through(t, zip(t, string(zip(t, "#cloud-config\n"))))
}

func TestCase012_NothingIsCut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2047, 2048, 2049, 1 << 20, 20 << 20} {
		through(t, noise(n))
	}
	img, err := Build(Input{InstanceID: "i", UserData: make([]byte, MaxUserData+1)})
	if err == nil || img.Bytes != nil || !strings.Contains(err.Error(), "33554432") {
		t.Errorf("over the limit: %v; want an error that names it, and no image", err)
	}
}

// What is the same to the guest is the same to us, to the byte and to the hash.
func TestCase015_Seed30_EqualInputsAreNoChange(t *testing.T) {
	t.Parallel()
	a, b := sample(), sample()
	b.Vars = map[string]string{}
	for _, key := range []string{"upstream", "c", "a", "b"} {
		b.Vars[key] = a.Vars[key]
	}
	b.UserData = append(make([]byte, 0, 1000), b.UserData...)
	if a.ContentHash() != b.ContentHash() {
		t.Error("equal inputs have two hashes")
	}
	if x, y := mustBuild(t, a), mustBuild(t, b); x.SHA256 != y.SHA256 || !bytes.Equal(x.Bytes, y.Bytes) {
		t.Error("an image that is lost could not be rebuilt as it was")
	}
}
