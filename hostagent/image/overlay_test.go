package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Case 60: the backing format is stated, and what is in the base does not
// change it.
func TestCase060BackingFormat(t *testing.T) {
	t.Parallel()
	needQemu(t)
	tree := newTree(t)
	header := source(t, "qcow2", 64*mib)
	data, err := os.ReadFile(header.Source)
	if err != nil {
		t.Fatal(err)
	}
	// A raw base that looks like a qcow2 image of 64 MiB.
	plant(t, tree, "base/"+header.SHA256+".raw", string(data))
	disguised := observe.Base{SHA256: header.SHA256, Format: "raw"}
	tests := []struct {
		name string
		base observe.Base
		size int64
	}{
		{"q", published(t, tree, "qcow2", 3*mib), 3 * mib},
		{"r", published(t, tree, "raw", 2*mib), 2 * mib},
		{"d", disguised, (int64(len(data)) + 511) / 512 * 512},
	}
	for _, tt := range tests {
		if err := tree.CreateOverlay(t.Context(), tt.name, testInst, tt.base, 0); err != nil {
			t.Fatal(err)
		}
		path := tree.Paths(tt.name, testInst).Overlay
		got := qemuInfo(t, path)
		want := imageInfo{Format: "qcow2", VirtualSize: tt.size, BackingFormat: tt.base.Format, Backing: tree.base(tt.base.SHA256, tt.base.Format).Path}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o660 {
			t.Errorf("%v %v", fi, err)
		}
	}
}

// TestCase060_AGuestWritesAHeader: a guest that makes its disk look like an image
// of another kind, with a host's file behind it, changes neither what its overlay
// stands on nor the base.
func TestCase060_AGuestWritesAHeader(t *testing.T) {
	t.Parallel()
	needQemu(t)
	if _, err := exec.LookPath("qemu-io"); err != nil {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatal("qemu-io is required and missing")
		}
		t.Skip("needs qemu-io")
	}
	dir := t.TempDir()
	qemu(t, dir, "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", "header", "64M")
	tree := newTree(t)
	base := published(t, tree, "raw", 2*mib)
	if err := tree.CreateOverlay(t.Context(), "a", testInst, base, 0); err != nil {
		t.Fatal(err)
	}
	path := tree.Paths("a", testInst).Overlay
	before := qemuInfo(t, path)
	if err := os.Truncate(filepath.Join(dir, "header"), 256<<10); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "-c", "write -s "+filepath.Join(dir, "header")+" 0 256k", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("qemu-io: %v: %s", err, out)
	}
	if diff := cmp.Diff(before, qemuInfo(t, path)); diff != "" {
		t.Errorf("the overlay (-before +after):\n%s", diff)
	}
	on, err := tree.StandsOn(t.Context(), path, "qcow2")
	if diff := cmp.Diff([]string{path, base.Path}, on); diff != "" || err != nil {
		t.Errorf("%v, it stands on (-want +got):\n%s", err, diff)
	}
	if err := tree.CreateOverlay(t.Context(), "a", testInst, base, 0); err != nil {
		t.Errorf("again: %v", err)
	}
	if got := entry(t, base.Path, "raw").SHA256; got != base.SHA256 {
		t.Error("the base changed")
	}
}

// Case 69: never smaller than the base.
func TestCase069NoShrink(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	base := published(t, tree, "qcow2", 3*mib)
	for _, tt := range []struct{ size, want int64 }{{0, 3 * mib}, {1, 0}, {3*mib - 1, 0}, {3 * mib, 3 * mib}, {5 * mib, 5 * mib}} {
		name := fmt.Sprint("s", tt.size)
		err := tree.CreateOverlay(t.Context(), name, testInst, base, spec.Size(tt.size))
		path := tree.Paths(name, testInst).Overlay
		if tt.want == 0 {
			if observe.ClassOf(err) != observe.Permanent {
				t.Errorf("%d: %v", tt.size, err)
			}
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%d: the overlay is there: %v", tt.size, err)
			}
		} else if err != nil || qemuInfo(t, path).VirtualSize != tt.want {
			t.Errorf("%d: %v", tt.size, err)
		}
	}
}

// Case 66 without a crash: creating again is success when it is the same
// overlay, which is then left as it is, and an error when it is another.
func TestCase066CreateAgain(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	base, other, raw := published(t, tree, "qcow2", 3*mib), published(t, tree, "qcow2", mib), published(t, tree, "raw", mib)
	create := func(base observe.Base, size spec.Size) error {
		return tree.CreateOverlay(t.Context(), "a", testInst, base, size)
	}
	if err := create(base, 0); err != nil {
		t.Fatal(err)
	}
	before := state(t, tree.root)
	if err := create(base, 3*mib); err != nil {
		t.Error(err)
	}
	if err := create(base, 4*mib); err == nil {
		t.Error("another size passes")
	}
	for _, b := range []observe.Base{other, raw} {
		if err := create(b, 3*mib); err == nil {
			t.Error("another base passes")
		}
	}
	if diff := cmp.Diff(before, state(t, tree.root)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestCreateOverlayWithoutBase(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	err := tree.CreateOverlay(t.Context(), "a", testInst, observe.Base{SHA256: digest(nil), Format: "raw"}, 0)
	if !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("CreateOverlay = %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

// script makes a qemu-img that does something else.
func script(t *testing.T, body string) Option {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu-img")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return WithQemuImg(path)
}

// A qemu-img that hangs, floods, fails or is not there is an error in bounded
// time and memory, and leaves nothing.
func TestI15_QemuImgIsBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opt  Option
		says string
	}{
		{"hangs", script(t, "exec sleep 100"), "in time"},
		{"leaves a child with the pipes", script(t, "sleep 20 & exit 1"), "qemu-img"},
		{"floods stdout", script(t, "exec head -c 3000000 /dev/zero"), "larger"},
		{"floods stderr", script(t, "head -c 3000000 /dev/zero >&2; exit 1"), "exit status 1"},
		{"fails", script(t, `printf 'no\033[2Jway\n' >&2; exit 1`), "no [2Jway"},
		{"talks nonsense", script(t, "echo hello"), "answer"},
		{"says nothing", script(t, "echo '{}'"), "no content"},
		{"is missing", WithQemuImg("no-such-qemu-img"), "install"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t, tt.opt, WithDeadline(time.Second))
			_, err := tree.EnsureBase(t.Context(), image(t), nil)
			if err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > maxStderr+1000 {
				t.Errorf("EnsureBase = %.500v", err)
			}
			empty(t, tree)
		})
	}
}

func TestQemuImgEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready")
	tree := newTree(t, script(t, "mkfifo "+ready+"; echo > "+ready+"; exec sleep 100"))
	go func() {
		defer cancel()
		for {
			if f, err := os.Open(ready); err == nil { // opens once the script writes
				f.Close()
				return
			}
		}
	}()
	if _, err := tree.EnsureBase(ctx, image(t), nil); err == nil {
		t.Error("EnsureBase went on")
	}
	empty(t, tree)
}
