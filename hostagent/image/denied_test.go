package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nobodyID = 65534

// asNobody runs do with the file access of somebody without privileges. A thread
// whose access can not be given back is not used again.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	runtime.LockOSThread()
	if _, err := unix.SetfsuidRetUid(nobodyID); err != nil {
		t.Fatal(err)
	}
	do()
	if _, err := unix.SetfsuidRetUid(0); err == nil {
		runtime.UnlockOSThread()
	}
}

// given gives a directory, and what is in it, to the user of asNobody, with a
// way there.
func given(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(filepath.Dir(filepath.Dir(dir)), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobodyID, -1))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCase075_ADeniedPathIsNamed: what the agent itself may not read or write is
// in the error, with what to do about a source.
func TestCase075_ADeniedPathIsNamed(t *testing.T) {
	t.Parallel()
	img := local(t, time.Now().Add(-time.Hour), "whole")
	source := func(*Tree) string { return img.Source }
	tests := []struct {
		name        string
		denied, has func(*Tree) string
	}{
		{"source", source, source},
		{"directory of the source", func(*Tree) string { return filepath.Dir(img.Source) }, source},
		{"base", func(tree *Tree) string { return filepath.Join(tree.root, baseDir) }, func(tree *Tree) string { return tree.root + ": openat " + baseDir }},
		{"root", func(tree *Tree) string { return tree.root }, func(tree *Tree) string { return tree.root + ": open" }},
	}
	for _, tt := range tests {
		tree := newTree(t)
		given(t, tree.root)
		given(t, img.Source)
		path := tt.denied(tree)
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() { _, err = tree.EnsureBase(t.Context(), img, nil) })
		if err == nil || !strings.Contains(err.Error(), tt.has(tree)+": permission denied") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := os.Chmod(path, fi.Mode()); err != nil {
			t.Fatal(err)
		}
		empty(t, tree)
	}
}
