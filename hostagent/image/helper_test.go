package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

const (
	testHost  = "host-a"
	testInst  = "i-0123456789abcdef"
	otherInst = "i-fedcba9876543210"
	testUUID  = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	mib       = 1 << 20
	roomy     = 100 * mib // free space of test trees
)

// newTree makes an initialised tree; its root's parent is the test's alone.
func newTree(t testing.TB, opt ...Option) *Tree {
	t.Helper()
	root := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(root, 0o710); err != nil {
		t.Fatal(err)
	}
	tree := New(root, testHost, append([]Option{withFree(func(*os.Root) uint64 { return roomy })}, opt...)...)
	if err := tree.InitMarker(); err != nil {
		t.Fatal(err)
	}
	return tree
}

// needQemu skips a test that needs qemu-img, unless everything is required.
func needQemu(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(DefaultQemuImg); err != nil {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatal("qemu-img is required and missing")
		}
		t.Skip("needs qemu-img")
	}
}

// qemu runs qemu-img in dir.
func qemu(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	needQemu(t)
	cmd := exec.CommandContext(t.Context(), DefaultQemuImg, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("qemu-img %v: %v: %s", args, err, out)
	}
	return out
}

// source makes a small image of a format and gives its config entry.
func source(t testing.TB, format string, size int64) spec.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source."+format)
	qemu(t, "", "create", "-q", "-f", format, path, fmt.Sprint(size))
	return entry(t, path, format)
}

func entry(t testing.TB, path, format string) spec.Image {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Image{Key: "debian", Source: path, SHA256: digest(data), Format: format}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// published makes a source and has it in the tree.
func published(t testing.TB, tree *Tree, format string, size int64) observe.Base {
	t.Helper()
	base, err := tree.EnsureBase(t.Context(), source(t, format, size), nil)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// qemuInfo is what qemu-img says of a file of the tree.
func qemuInfo(t testing.TB, path string) imageInfo {
	t.Helper()
	var i imageInfo
	if err := json.Unmarshal(qemu(t, "", "info", "--output=json", path), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

func testSeed() seed.Image {
	data := bytes.Repeat([]byte("seed"), 16<<10)
	return seed.Image{Bytes: data, SHA256: digest(data)}
}

func testRecord(name, instance string) observe.Record {
	s := testSeed()
	return observe.Record{
		Version: observe.RecordVersion, Host: testHost, Name: name, UUID: testUUID, Instance: instance,
		Origin: "dir", SpecHash: "1:aa:bb", SeedHash: "cc", SeedFile: s.SHA256, SeedSize: int64(len(s.Bytes)),
		Base: digest(nil), Format: "qcow2", Created: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// plant writes a file beneath the root, past the Tree.
func plant(t testing.TB, tree *Tree, name string, data string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tree.root, name), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// incarnate writes the files of an incarnation without qemu-img.
func incarnate(t testing.TB, tree *Tree, name, instance string) {
	t.Helper()
	plant(t, tree, diskDir+"/"+name+"."+instance+".qcow2", "overlay")
	if err := tree.WriteSeed(name, instance, testSeed()); err != nil {
		t.Fatal(err)
	}
	if err := tree.WriteRecord(testRecord(name, instance)); err != nil {
		t.Fatal(err)
	}
	if err := tree.PrepareConsole(name); err != nil {
		t.Fatal(err)
	}
}

// state is everything beneath a directory: mode, inode and content by path.
func state(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(fi.Mode(), " ", sys(fi).Ino)
		switch {
		case fi.Mode().IsRegular():
			data, err := os.ReadFile(path)
			all[path] += " " + digest(data)
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			all[path] += " " + to
			return err
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// nobody refers to anything.
func nobody(string) (bool, error) { return false, nil }

// mutation is a call that changes the tree.
type mutation struct {
	name string
	do   func(ctx context.Context, tree *Tree, name, instance string, img spec.Image) error
}

// mutations are all of them but InitMarker, which has tests of its own.
func mutations() []mutation {
	return []mutation{
		{"EnsureBase", func(ctx context.Context, tree *Tree, _, _ string, img spec.Image) error {
			_, err := tree.EnsureBase(ctx, img, nil)
			return err
		}},
		{"CreateOverlay", func(ctx context.Context, tree *Tree, name, instance string, img spec.Image) error {
			return tree.CreateOverlay(ctx, name, instance, observe.Base{SHA256: img.SHA256, Format: img.Format}, 0)
		}},
		{"WriteSeed", func(_ context.Context, tree *Tree, name, instance string, _ spec.Image) error {
			return tree.WriteSeed(name, instance, testSeed())
		}},
		{"WriteRecord", func(_ context.Context, tree *Tree, name, instance string, _ spec.Image) error {
			return tree.WriteRecord(testRecord(name, instance))
		}},
		{"PrepareConsole", func(_ context.Context, tree *Tree, name, _ string, _ spec.Image) error {
			return tree.PrepareConsole(name)
		}},
		{"RemoveIncarnation", func(_ context.Context, tree *Tree, name, instance string, _ spec.Image) error {
			return tree.RemoveIncarnation(name, instance)
		}},
		{"RemoveConsole", func(_ context.Context, tree *Tree, name, _ string, _ spec.Image) error {
			return tree.RemoveConsole(name)
		}},
		{"Collect", func(ctx context.Context, tree *Tree, name, instance string, img spec.Image) error {
			_, err := tree.Collect(ctx, []string{img.SHA256}, []observe.Incarnation{{Name: name, Instance: instance}}, nobody)
			return err
		}},
	}
}
