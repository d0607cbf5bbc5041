package image

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// What a killed child process is told.
const (
	envRoot = "TEST_IMAGE_ROOT"
	envImg  = "TEST_IMAGE_SOURCE" // spec.Image as JSON
	envStep = "TEST_IMAGE_STEP"   // the step after which it is killed
	envWork = "TEST_IMAGE_WORK"   // "create", "remove" or "fetch"
)

func TestMain(m *testing.M) {
	if os.Getenv(envRoot) == "" {
		os.Exit(m.Run())
	}
	if err := victim(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// victim does the work and kills itself after the given step.
func victim() error {
	var img spec.Image
	if err := json.Unmarshal([]byte(os.Getenv(envImg)), &img); err != nil {
		return err
	}
	if os.Getenv(envWork) == "fetch" {
		return victimFetch(img)
	}
	last, err := strconv.Atoi(os.Getenv(envStep))
	if err != nil {
		return err
	}
	done := 0
	tree := New(os.Getenv(envRoot), testHost, WithStep(func(string) error {
		if done++; done == last {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}))
	if os.Getenv(envWork) == "remove" {
		return tree.RemoveIncarnation("a", testInst)
	}
	return create(context.Background(), tree, img)
}

// create makes a whole incarnation.
func create(ctx context.Context, tree *Tree, img spec.Image) error {
	base, err := tree.EnsureBase(ctx, img, nil)
	if err != nil {
		return err
	}
	if err := tree.CreateOverlay(ctx, "a", testInst, base, 0); err != nil {
		return err
	}
	if err := tree.WriteSeed("a", testInst, testSeed()); err != nil {
		return err
	}
	rec := testRecord("a", testInst)
	rec.Base, rec.Format = base.SHA256, base.Format
	return tree.WriteRecord(rec)
}

// killed runs a victim; it reports false when the work had fewer steps.
func killed(t *testing.T, root string, img spec.Image, work string, step int) bool {
	t.Helper()
	entry, err := json.Marshal(img)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRoot+"="+root, envImg+"="+string(entry), envWork+"="+work, envStep+"="+strconv.Itoa(step))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("step %d: %v: %s", step, err, out)
	}
	return true
}

// Case 66 and 72: killed after any step, there is no half file under a final
// name, the next run of the same work succeeds, and nothing is left over.
func TestCase066KilledWhileCreating(t *testing.T) {
	t.Parallel()
	needQemu(t)
	img := source(t, "qcow2", mib)
	step := 1
	for ; ; step++ {
		tree := newTree(t)
		if !killed(t, tree.root, img, "create", step) {
			break
		}
		noHalfFile(t, tree, img, step)
		if err := create(t.Context(), tree, img); err != nil {
			t.Errorf("step %d: again: %v", step, err)
		}
		whole(t, tree, img, step)
	}
	if step < 20 {
		t.Errorf("the work has only %d steps", step-1)
	}
}

// noHalfFile looks at what a killed call left under final names.
func noHalfFile(t *testing.T, tree *Tree, img spec.Image, step int) {
	t.Helper()
	got := New(tree.root, testHost).Scan()
	if got.Marker != observe.MarkerOK {
		t.Fatalf("step %d: %s", step, got.Detail)
	}
	for _, b := range got.Bases {
		if entry(t, b.Path, b.Format).SHA256 != img.SHA256 {
			t.Errorf("step %d: half a base", step)
		}
	}
	for _, i := range got.Incarnations["a"] {
		if i.Overlay {
			// Magic and virtual size of the header; every step is too often for qemu-img.
			data, err := os.ReadFile(tree.Paths("a", testInst).Overlay)
			if err != nil || len(data) < 3<<16 || string(data[:4]) != "QFI\xfb" || binary.BigEndian.Uint64(data[24:]) != mib {
				t.Errorf("step %d: half an overlay, %d bytes, %v", step, len(data), err)
			}
		}
		if i.Seed && entry(t, tree.Paths("a", testInst).Seed, "raw").SHA256 != testSeed().SHA256 {
			t.Errorf("step %d: half a seed", step)
		}
		if i.Problem != "" {
			t.Errorf("step %d: %s", step, i.Problem)
		}
	}
}

// whole checks that exactly the files of one incarnation are there.
func whole(t *testing.T, tree *Tree, img spec.Image, step int) {
	t.Helper()
	var got []string
	for path := range state(t, tree.root) {
		if filepath.Dir(path) != tree.root && path != tree.root {
			got = append(got, path)
		}
	}
	p := tree.Paths("a", testInst)
	want := []string{tree.base(img.SHA256, img.Format).Path, p.Overlay, p.Record, p.Seed}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("step %d: files (-want +got):\n%s", step, diff)
	}
	i := tree.ScanName("a")
	if len(i) != 1 || !i[0].Overlay || !i[0].Seed || i[0].Record == nil {
		t.Errorf("step %d: %+v", step, i)
	}
}

// Killed while it removes, the record is the last to go, and the next run
// removes the rest.
func TestCase066KilledWhileRemoving(t *testing.T) {
	t.Parallel()
	step := 1
	for ; ; step++ {
		tree := newTree(t)
		incarnate(t, tree, "a", testInst)
		if !killed(t, tree.root, spec.Image{}, "remove", step) {
			break
		}
		got := tree.Scan().Incarnations["a"]
		if len(got) > 1 || len(got) == 1 && got[0].Record == nil {
			t.Errorf("step %d: %+v has no record", step, got)
		}
		if err := tree.RemoveIncarnation("a", testInst); err != nil {
			t.Error(err)
		}
		if got := tree.Scan().Incarnations; len(got) != 0 {
			t.Errorf("step %d: left: %+v", step, got)
		}
	}
	if step < 6 {
		t.Errorf("removing has only %d steps", step-1)
	}
}

// A step that fails, instead of being killed, clears up after itself at once.
func TestFailedStepLeavesNothing(t *testing.T) {
	t.Parallel()
	needQemu(t)
	img := source(t, "qcow2", mib)
	for step := 1; ; step++ {
		done := 0
		tree := newTree(t)
		WithStep(func(string) error {
			if done++; done == step {
				return errFinal
			}
			return nil
		})(tree)
		err := create(t.Context(), tree, img)
		for path := range state(t, tree.root) {
			if strings.HasSuffix(path, partSuffix) {
				t.Errorf("step %d: left %s", step, path)
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errFinal) {
			t.Errorf("step %d: %v", step, err)
		}
		noHalfFile(t, tree, img, step)
	}
}
