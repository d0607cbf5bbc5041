package image

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stack makes images in a directory, each on the one before, with names as
// given to qemu-img.
func stack(t *testing.T, dir string, names ...string) {
	t.Helper()
	qemu(t, dir, "create", "-q", "-f", "qcow2", names[0], "1M")
	for i, name := range names[1:] {
		qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", names[i], name)
	}
}

func TestStandsOn(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	base := published(t, tree, "qcow2", mib)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	stack(t, dir, "a", "b", "c")
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "file:c", "d")
	if err := os.Symlink("c", at("link")); err != nil {
		t.Fatal(err)
	}
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base.Path, "on-base")
	qemu(t, dir, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "on-base", "above")
	lost := tree.base(digest(nil), "raw").Path // a base of ours needs no look
	qemu(t, dir, "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", lost, "on-lost", "1M")
	data, err := os.ReadFile(at("on-base"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("guest"), data, 0o600); err != nil { // a raw disk, and the guest wrote this
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path, format string
		want               []string
	}{
		{"alone", at("a"), "qcow2", []string{at("a")}},
		{"a chain", at("c"), "", []string{at("c"), at("b"), at("a")}},
		{"with a protocol that is a path", at("d"), "qcow2", []string{at("d"), at("c"), at("b"), at("a")}},
		{"through a link", at("link"), "qcow2", []string{at("link"), at("c"), at("b"), at("a")}},
		{"on our base", at("above"), "qcow2", []string{at("above"), at("on-base"), base.Path}},
		{"on a base of ours that is not there", at("on-lost"), "qcow2", []string{at("on-lost"), lost}},
		{"raw, whatever is in it", at("guest"), "raw", []string{at("guest")}},
	} {
		got, err := tree.StandsOn(t.Context(), tt.path, tt.format)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

func TestStandsOnInDoubt(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	stack(t, dir, "low", "broken")
	stack(t, dir, "first", "second")
	qemu(t, dir, "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", "second", "first")
	qemu(t, dir, "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", `json:{"driver":"null-co"}`, "json", "1M")
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("text"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(at("low")); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"missing": at("none"), "missing below": at("broken"), "circle": at("first"), "no path": at("json"),
		"pipe": at("fifo"), "directory": dir, "device": "/dev/zero", "relative": "low", "not that format": at("text"),
	} {
		got, err := tree.StandsOn(t.Context(), path, "qcow2")
		if err == nil || !strings.Contains(err.Error(), path+": ") || len(got) > 3 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if odd := name == "pipe" || name == "directory" || name == "device"; odd != strings.Contains(err.Error(), "neither") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An image that does not answer costs its caller the deadline, and no more than
// one of them is asked at a time.
func TestI15_StandsOnIsBounded(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := newTree(t, script(t, "exec sleep 100"), WithDeadline(50*time.Millisecond))
	if _, err := tree.StandsOn(t.Context(), image, ""); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("hangs: %v", err)
	}
	tree = newTree(t, WithDeadline(50*time.Millisecond))
	tree.walks <- struct{}{} // one hangs for good
	if _, err := tree.StandsOn(t.Context(), image, ""); err == nil || !strings.Contains(err.Error(), "another image") {
		t.Errorf("beside one that hangs: %v", err)
	}
}
