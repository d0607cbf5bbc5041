package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestEnsureBaseLocal(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"qcow2", "raw"} {
		tree := newTree(t)
		img := source(t, format, 3*mib)
		var seen int
		base, err := tree.EnsureBase(t.Context(), img, func(done, total int64) {
			seen++
			if done > total || total <= 0 {
				t.Errorf("progress %d of %d", done, total)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := observe.Base{SHA256: img.SHA256, Format: format, Path: filepath.Join(tree.root, "base", img.SHA256+"."+format)}
		if diff := cmp.Diff(want, base); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		published := entry(t, base.Path, format)
		fi, err := os.Stat(base.Path)
		if err != nil || fi.Mode() != 0o440 || published.SHA256 != img.SHA256 || seen == 0 {
			t.Errorf("%v %v, digest %s, %d progress calls", fi, err, published.SHA256, seen)
		}
		if diff := cmp.Diff(map[string]observe.Base{img.SHA256: want}, tree.Scan().Bases); diff != "" {
			t.Errorf("Scan (-want +got):\n%s", diff)
		}
		// Published once, the source is not needed any more, nor may it matter.
		if err := os.WriteFile(img.Source, []byte("changed in place"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil || entry(t, base.Path, format).SHA256 != img.SHA256 {
			t.Errorf("after the source changed: %v", err)
		}
	}
}

// What is no complete image of the stated format never gets a final name.
func TestEnsureBaseRefuses(t *testing.T) {
	t.Parallel()
	needQemu(t)
	dir := t.TempDir()
	make := func(format, name string, args ...string) spec.Image {
		qemu(t, dir, append(append([]string{"create", "-q", "-f", format}, args...), name, "1M")...)
		return entry(t, filepath.Join(dir, name), format)
	}
	plain := make("qcow2", "plain.qcow2")
	corrupt := make("qcow2", "corrupt.qcow2")
	markCorrupt(t, &corrupt)
	with := func(img spec.Image, change func(*spec.Image)) spec.Image { change(&img); return img }
	tests := []struct {
		name  string
		img   spec.Image
		class observe.Class
		says  string
	}{
		{"raw as qcow2", with(make("raw", "a.raw"), func(i *spec.Image) { i.Format = "qcow2" }), observe.Permanent, "raw"},
		{"qcow2 as raw", with(plain, func(i *spec.Image) { i.Format = "raw" }), observe.Permanent, "qcow2"},
		{"another format", with(make("vmdk", "a.vmdk"), func(i *spec.Image) { i.Format = "raw" }), observe.Permanent, "vmdk"},
		{"backing file", make("qcow2", "b.qcow2", "-F", "qcow2", "-b", "plain.qcow2"), observe.Permanent, "plain.qcow2"},
		{"data file", make("qcow2", "d.qcow2", "-o", "data_file=data.raw"), observe.Permanent, "data.raw"},
		{"encrypted", make("qcow2", "e.qcow2", "--object", "secret,id=s,data=abc", "-o", "encrypt.format=aes,encrypt.key-secret=s"), observe.Permanent, "encrypted"},
		{"corrupt", corrupt, observe.Permanent, "corrupt"},
		{"another digest", with(plain, func(i *spec.Image) { i.SHA256 = digest(nil) }), observe.Transient, plain.SHA256},
		{"missing", with(plain, func(i *spec.Image) { i.Source = filepath.Join(dir, "none") }), observe.Transient, filepath.Join(dir, "none")},
		{"directory", with(plain, func(i *spec.Image) { i.Source = dir }), observe.Transient, dir},
		{"device", with(plain, func(i *spec.Image) { i.Source = "/dev/zero" }), observe.Transient, "/dev/zero"},
		{"relative", with(plain, func(i *spec.Image) { i.Source = "plain.qcow2" }), observe.Permanent, "absolute"},
		{"plain http", with(plain, func(i *spec.Image) { i.Source = "http://mirror.example/a" }), observe.Permanent, "https"},
		{"no format", with(plain, func(i *spec.Image) { i.Format = "" }), observe.Permanent, "format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t)
			_, err := tree.EnsureBase(t.Context(), tt.img, nil)
			if err == nil || observe.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("EnsureBase = %v (%s), want %s with %q", err, observe.ClassOf(err), tt.class, tt.says)
			}
			empty(t, tree)
		})
	}
}

// markCorrupt sets the header's corrupt bit (incompatible feature 1).
func markCorrupt(t *testing.T, img *spec.Image) {
	t.Helper()
	data, err := os.ReadFile(img.Source)
	if err != nil {
		t.Fatal(err)
	}
	data[79] |= 2
	if err := os.WriteFile(img.Source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	img.SHA256 = digest(data)
}

// empty checks that no base is there, whole or in part.
func empty(t *testing.T, tree *Tree) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(tree.root, baseDir))
	if err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v %v", baseDir, left, err)
	}
}

func TestDigestError(t *testing.T) {
	t.Parallel()
	img := image(t)
	got := img.SHA256
	img.SHA256 = digest([]byte("other"))
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(img.Source, old, old); err != nil {
		t.Fatal(err)
	}
	_, err := newTree(t).EnsureBase(t.Context(), img, nil)
	var d *DigestError
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DigestError{Source: img.Source, Want: img.SHA256, Got: got}, *d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestI15_BaseIsBounded(t *testing.T) {
	t.Parallel()
	img := image(t)
	tree := newTree(t, WithMaxBase(2))
	if _, err := tree.EnsureBase(t.Context(), img, nil); err == nil {
		t.Error("a source above the limit was copied")
	}
	empty(t, tree)
}

func TestEnsureBaseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tree := newTree(t)
	img := image(t)
	if err := os.Truncate(img.Source, 8*mib); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.EnsureBase(ctx, img, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("EnsureBase = %v", err)
	}
	empty(t, tree)
}
