package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// expect compares a snapshot with what it should say.
func expect(t *testing.T, s Snapshot, synced bool, seq uint64, want map[string]string) {
	t.Helper()
	if s.Synced != synced || s.Seq != seq || (s.Problem == "") != synced {
		t.Errorf("synced %v, seq %d, problem %q; want synced %v, seq %d", s.Synced, s.Seq, s.Problem, synced, seq)
	}
	if diff := cmp.Diff(want, says(s)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestReadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "file squid.yaml", "squid.yaml": "two", "bad.toml": "?"})
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	d := NewDir(dir+"/", (&decoder{}).decode, WithClock(func() time.Time { return now }))
	one := spec.Spec{Name: "edge1", UserData: spec.Secret("one")}
	two := spec.Spec{Name: "edge2", UserData: spec.Secret("two")}
	bad := filepath.Join(dir, "bad.toml")
	want := Snapshot{
		Origin: OriginDir, Location: dir, Seq: 1, Read: now, Synced: true,
		Entries: map[string]Entry{
			"edge1": {Name: "edge1", File: filepath.Join(dir, "edge1.toml"), Spec: &one, Hash: one.Hash(), Warnings: one.Warnings()},
			"edge2": {Name: "edge2", File: filepath.Join(dir, "edge2.toml"), Spec: &two, Hash: two.Hash(), Warnings: two.Warnings()},
			"bad":   {Name: "bad", File: bad, Problems: []string{bad + ":1:1: broken", bad + ":2:3: broken here, too"}},
		},
	}
	id, err := identify(dir)
	must(t, err)
	want.Identity = id.keep()
	if diff := cmp.Diff(want, d.ReadOnce()); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestSnapshotsDoNotShareTheirMaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode)
	delete(d.ReadOnce().Entries, "edge1")
	must(t, os.RemoveAll(dir))
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
}

func TestI02_DirectoryInDoubtKeepsTheLastGoodState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string)
		heal  func(t *testing.T, dir string)
		says  string // part of the problem
	}{
		{
			"missing",
			func(t *testing.T, dir string) { must(t, os.Rename(dir, dir+".away")) },
			func(t *testing.T, dir string) { must(t, os.Rename(dir+".away", dir)) },
			"does not exist",
		},
		{
			"a file in its place",
			func(t *testing.T, dir string) {
				must(t, os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o644))
			},
			func(t *testing.T, dir string) { must(t, os.Remove(dir), os.Rename(dir+".away", dir)) },
			"not a directory",
		},
		{
			"unreadable",
			func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0)) },
			func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) },
			"mode",
		},
		{
			"not to be listed",
			func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o311)) },
			func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) },
			"mode",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
			d := NewDir(dir, (&decoder{}).decode)
			both := map[string]string{"edge1": "one", "edge2": "two"}
			byModes(t, func() { expect(t, d.ReadOnce(), true, 1, both) })
			tt.spoil(t, dir)
			byModes(t, func() {
				s := d.ReadOnce()
				expect(t, s, false, 1, both)
				if !strings.Contains(s.Problem, dir) || !strings.Contains(s.Problem, tt.says) {
					t.Errorf("problem %q, want it to name %s and say %q", s.Problem, dir, tt.says)
				}
			})
			tt.heal(t, dir)
			must(t, os.Remove(filepath.Join(dir, "edge2.toml")))
			byModes(t, func() { expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "one"}) })
		})
	}
}

func TestI02_FirstReadOfAMissingDirectoryKeepsWhatWasRestored(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	d := NewDir(dir, (&decoder{}).decode)
	d.Restore(map[string]Entry{"edge1": {Name: "edge1", Spec: &spec.Spec{UserData: spec.Secret("one")}}}, "")
	expect(t, d.ReadOnce(), false, 0, map[string]string{"edge1": "one"})
	place(t, dir, map[string]string{"edge2.toml": "ok two"})
	expect(t, d.ReadOnce(), false, 0, map[string]string{"edge1": "one"}) // perhaps it is being filled
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge2": "two"})
}

func TestI02_ReplacedDirectoryMustSettle(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
	d := NewDir(dir, (&decoder{}).decode)
	both := map[string]string{"edge1": "one", "edge2": "two"}
	expect(t, d.ReadOnce(), true, 1, both)
	must(t, os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755))
	expect(t, d.ReadOnce(), false, 1, both)
	place(t, dir, map[string]string{"edge1.toml": "ok new one"}) // it is being filled
	expect(t, d.ReadOnce(), false, 1, both)
	place(t, dir, map[string]string{"edge3.toml": "ok three"})
	expect(t, d.ReadOnce(), false, 1, both)
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "new one", "edge3": "three"})
}

func TestI02_ReplacedWhileItIsRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	var during func()
	d := NewDir(dir, func(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
		during()
		return (&decoder{}).decode(name, file, data, open)
	})
	during = func() {}
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
	place(t, dir, map[string]string{"edge1.toml": "ok of the old directory"})
	during = func() { must(t, os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)) }
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
}

func TestFileRemovedWhileTheDirectoryIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
	d := NewDir(dir, func(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
		must(t, os.Remove(filepath.Join(dir, "edge2.toml"))) // listed, and not yet read
		return (&decoder{}).decode(name, file, data, open)
	})
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
}

// File systems give the inode number of a removed directory to the next one.
func TestI02_RecreatedDirectoryIsAnother(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	before := birth(t, dir)
	if before.Mask&unix.STATX_BTIME == 0 {
		t.Skip("the file system keeps no time of birth")
	}
	d := NewDir(dir, (&decoder{}).decode)
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
	for range 1000 {
		must(t, os.RemoveAll(dir), os.Mkdir(dir, 0o755))
		after := birth(t, dir)
		if after.Ino == before.Ino && after.Btime != before.Btime {
			break
		}
	}
	place(t, dir, map[string]string{"edge2.toml": "ok two"})
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge2": "two"})
}

func birth(t *testing.T, path string) (st unix.Statx_t) {
	t.Helper()
	must(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st))
	return st
}

func TestCase122_MountOverTheDirectory(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode)
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
	if err := unix.Mount(other, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
	must(t, unix.Unmount(dir, 0))
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "one"})
}

func TestI15_TooManyFilesAreADoubt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode)
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
	// Links of one file: cheaper than files.
	for i := range maxNames {
		must(t, os.Link(filepath.Join(dir, "edge1.toml"), filepath.Join(dir, "x"+string(rune('0'+i/10000))+strings.Repeat("y", i%100)+strings.Repeat("z", i/100%100))))
	}
	expect(t, d.ReadOnce(), false, 1, map[string]string{"edge1": "one"})
}

func TestI03_BrokenEditKeepsTheLastGoodSpec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
	d := NewDir(dir, (&decoder{}).decode)
	good := d.ReadOnce()
	place(t, dir, map[string]string{"edge1.toml": "?", "edge2.toml": "ok new two"})
	broken := d.ReadOnce()
	expect(t, broken, true, 2, map[string]string{"edge1": "one!", "edge2": "new two"})
	if got, want := broken.Entries["edge1"].Hash, good.Entries["edge1"].Hash; got != want {
		t.Errorf("hash %v, want that of the last good spec, %v", got, want)
	}
	if got := broken.Entries["edge1"].Problems[0]; !strings.Contains(got, filepath.Join(dir, "edge1.toml")+":1:1: ") {
		t.Errorf("problem %q, want file, line and column", got)
	}

	restarted := NewDir(dir, (&decoder{}).decode)
	restarted.Restore(broken.Entries, "")
	expect(t, restarted.ReadOnce(), true, 1, map[string]string{"edge1": "one!", "edge2": "new two"})
	place(t, dir, map[string]string{"edge1.toml": "ok new one"})
	expect(t, restarted.ReadOnce(), true, 2, map[string]string{"edge1": "new one", "edge2": "new two"})
}

func TestI03_ProblemsOfRealSpecsNameThePlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "edge1.toml")
	place(t, dir, map[string]string{"edge1.toml": "port = 3128\nmemroy = \"1GiB\"\nuser_data_file = \"squid.yaml\"\n"})
	d := NewDir(dir, func(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
		return spec.DecodeTOML(name, file, data, spec.Catalog{}, open)
	})
	problems := d.ReadOnce().Entries["edge1"].Problems
	for _, want := range []string{path + ":2:1: ", path + ":3:"} {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, want) }) {
			t.Errorf("no problem begins %q:\n%s", want, strings.Join(problems, "\n"))
		}
	}
}

func TestI03_RemovedThenBrokenHasNoSpec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode)
	d.ReadOnce()
	must(t, os.Remove(filepath.Join(dir, "edge1.toml")))
	expect(t, d.ReadOnce(), true, 2, map[string]string{})
	place(t, dir, map[string]string{"edge1.toml": "?"})
	expect(t, d.ReadOnce(), true, 3, map[string]string{"edge1": "-!"})
}

func TestCase118_EditorArtefactsAreNoSpecs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	for _, name := range []string{
		"4913", ".edge1.toml.swp", ".edge1.toml", "edge1.toml~", "#edge1.toml#", "edge1.toml.dpkg-new",
		"edge1.toml.dpkg-old", "edge1.toml.rpmsave", "edge1.toml.rpmnew", "edge1.toml.bak", "edge1.toml.swp",
		".edge1.toml.Ab12Cd", "..2026_01/edge9.toml", "README", "squid.yaml", "toml", ".toml",
	} {
		place(t, dir, map[string]string{name: "ok artefact"})
	}
	must(t, os.Symlink("root@kvm-1.1234", filepath.Join(dir, ".#edge1.toml")), os.Symlink("..2026_01", filepath.Join(dir, "..data")))
	s := NewDir(dir, (&decoder{}).decode).ReadOnce()
	expect(t, s, true, 1, map[string]string{"edge1": "one"})
	if len(s.Ignored) > 0 {
		t.Errorf("messages about artefacts: %q", s.Ignored)
	}
}

func TestI13_BadFileNamesAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"my proxy (1).toml", "-rf.toml", "größe.toml", "a\x1b[2J\n.toml", "EDGE1.TOML", strings.Repeat("x", 64) + ".toml", "#x.toml"}
	for _, name := range names {
		place(t, dir, map[string]string{name: "ok bad"})
	}
	place(t, dir, map[string]string{"edge_1.toml": "ok one", "Edge-2.x.toml": "ok two"})
	s := NewDir(dir, (&decoder{}).decode).ReadOnce()
	expect(t, s, true, 1, map[string]string{"edge_1": "one", "Edge-2.x": "two"})
	if len(s.Ignored) != len(names) {
		t.Errorf("%d messages, want %d: %q", len(s.Ignored), len(names), s.Ignored)
	}
	for _, message := range s.Ignored {
		if strings.ContainsAny(message, "\x1b\n") || !strings.Contains(message, "rename") {
			t.Errorf("message %q, want it escaped and with what to do", message)
		}
	}
	if !slices.IsSorted(s.Ignored) {
		t.Errorf("messages %q, want them in a fixed order", s.Ignored)
	}
}

func TestCase121_OneBadFileDoesNotSpoilTheRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t,
		os.WriteFile(path("unreadable.toml"), []byte("ok secret"), 0),
		os.Mkdir(path("directory.toml"), 0o755),
		syscall.Mkfifo(path("fifo.toml"), 0o666),
		os.WriteFile(path("sparse.toml"), nil, 0o644),
		os.Truncate(path("sparse.toml"), 5<<30),
		os.WriteFile(path("large.toml"), nil, 0o644),
		os.Truncate(path("large.toml"), maxSpec+1),
		os.Symlink("loop.toml", path("loop.toml")),
		os.Symlink("nothing", path("dangling.toml")),
		os.Symlink("/etc/passwd", path("absolute.toml")),
		os.Symlink("../x.toml", path("outside.toml")),
		os.Symlink("/dev/zero", path("device.toml")),
		os.Symlink("good.toml", path("link.toml")),
	)
	place(t, dir, map[string]string{"good.toml": "ok good", "zz.toml": "ok last", "empty.toml": ""})
	byModes(t, func() {
		s := NewDir(dir, (&decoder{}).decode).ReadOnce()
		expect(t, s, true, 1, map[string]string{
			"unreadable": "-!", "directory": "-!", "fifo": "-!", "sparse": "-!", "large": "-!", "loop": "-!", "dangling": "-!",
			"absolute": "-!", "outside": "-!", "device": "-!", "empty": "-!", "link": "good", "good": "good", "zz": "last",
		})
		for name, says := range map[string]string{
			"unreadable": "mode", "directory": "is a directory", "fifo": "not a regular file", "sparse": "5368709120 bytes", "large": "at most 1048576",
			"loop": "loop", "dangling": "does not exist", "absolute": "leads out", "outside": "leads out", "device": "leads out",
		} {
			problem := s.Entries[name].Problems[0]
			if !strings.HasPrefix(problem, path(name+".toml: ")) || !strings.Contains(problem, says) {
				t.Errorf("%s: problem %q, want the path first and %q", name, problem, says)
			}
		}
	})
}

// A file that becomes unreadable is present and keeps its spec; as soon as it
// can be read again it is.
func TestI02_UnreadableFileIsPresent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode, WithClock(future))
	byModes(t, func() { expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"}) })
	must(t, os.Chmod(filepath.Join(dir, "edge1.toml"), 0))
	byModes(t, func() { expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "one!"}) })
	must(t, os.Chmod(filepath.Join(dir, "edge1.toml"), 0o644))
	byModes(t, func() { expect(t, d.ReadOnce(), true, 3, map[string]string{"edge1": "one"}) })
}

func TestCase127_RemovedWhileTheAgentWasStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
	before := NewDir(dir, (&decoder{}).decode).ReadOnce()
	must(t, os.Remove(filepath.Join(dir, "edge2.toml")))
	d := NewDir(dir, (&decoder{}).decode)
	d.Restore(before.Entries, "")
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
}
