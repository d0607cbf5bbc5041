package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	agentID = 64990 // user and group of the agent in the test
	qemuID  = 64991 // group of the tree, which the agent is no member of
)

// The tree as packages make it: owned by the agent, of QEMU's group, which the
// agent is not in. Everything made in it has that group and its exact mode,
// whatever the umask.
func TestModesAndGroup(t *testing.T) {
	t.Parallel()
	needQemu(t)
	if os.Getuid() != 0 {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	img := source(t, "qcow2", mib)
	root := reachable(t)
	if err := os.Chown(root, agentID, qemuID); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o710|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	tree := New(root, testHost)
	asAgent(t, func() {
		if err := tree.InitMarker(); err != nil {
			t.Error(err)
			return
		}
		if err := create(t.Context(), tree, img); err != nil {
			t.Error(err)
		}
		if err := tree.PrepareConsole("a"); err != nil {
			t.Error(err)
		}
	})
	p := tree.Paths("a", testInst)
	dir := fs.ModeDir | fs.ModeSetgid | 0o710
	want := map[string]fs.FileMode{
		root: dir, root + "/base": dir, root + "/disk": dir, root + "/seed": dir, root + "/console": dir,
		root + "/.egress-tree": 0o640, p.Overlay: 0o660, p.Record: 0o640, p.Seed: 0o640, p.Console: 0o640,
		tree.base(img.SHA256, "qcow2").Path: 0o440,
	}
	got := map[string]fs.FileMode{}
	for path := range state(t, root) {
		fi, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		got[path] = fi.Mode()
		if s := sys(fi); s.Uid != agentID || s.Gid != qemuID {
			t.Errorf("%s belongs to %d:%d", path, s.Uid, s.Gid)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// reachable makes a directory that another user can get to.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// asAgent runs f on a thread that has another user's file system rights, and
// none of root's. The thread ends with it.
func asAgent(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is not used again
		for _, call := range [][2]uintptr{{syscall.SYS_SETFSGID, agentID}, {syscall.SYS_SETFSUID, agentID}} {
			syscall.RawSyscall(call[0], call[1], 0, 0)
		}
		f()
	}()
	<-done
}
