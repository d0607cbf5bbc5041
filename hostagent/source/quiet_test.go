package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// busyDir is a directory whose reads are as those of Run, at times that the
// test sets.
func busyDir(t *testing.T) (dir string, read func() Snapshot, pass func(time.Duration)) {
	t.Helper()
	dir = t.TempDir()
	now := time.Now()
	d := NewDir(dir, (&decoder{}).decode, WithClock(func() time.Time { return now }))
	read = func() Snapshot { return d.readNow(d.debounce) }
	return dir, read, func(by time.Duration) { now = now.Add(by) }
}

// TestI03_HalfWrittenFileIsNoEdit: a writer truncates a file, and writes it in
// two halves of which the first is a document of its own.
func TestI03_HalfWrittenFileIsNoEdit(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"spec": "edge1.toml", "named file": "squid.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, read, pass := busyDir(t)
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok other"})
			prefix := "ok "
			if file != "edge1.toml" {
				prefix = ""
				place(t, dir, map[string]string{"edge1.toml": "file " + file, file: "one"})
			}
			pass(time.Minute)
			read()
			pass(-time.Minute)
			want := map[string]string{"edge1": "one", "edge2": "other"}
			place(t, dir, map[string]string{file: prefix + "half", "edge2.toml": "ok other"})
			pass(DefaultDebounce + 10*time.Millisecond)
			expect(t, read(), true, 2, want)
			f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.WriteString(" and half")
			must(t, err, f.Close())
			expect(t, read(), true, 3, want)
			pass(inPlace * DefaultDebounce)
			want["edge1"] = "half and half"
			expect(t, read(), true, 4, want)
		})
	}
}

// TestCase117_RenamedFileCountsSooner: it came whole.
func TestCase117_RenamedFileCountsSooner(t *testing.T) {
	t.Parallel()
	dir, read, pass := busyDir(t)
	expect(t, read(), true, 1, map[string]string{})
	new, path := filepath.Join(dir, "edge1.toml.new"), filepath.Join(dir, "edge1.toml")
	place(t, dir, map[string]string{"edge1.toml.new": "ok one"})
	must(t, os.Rename(new, path))
	for stampOf(stat(t, path)).ctime <= stampOf(stat(t, path)).mtime { // within the clock tick of the file system
		must(t, os.Rename(path, new), os.Rename(new, path))
	}
	pass(DefaultDebounce * 2)
	expect(t, read(), true, 2, map[string]string{"edge1": "one"})
}

// TestI15_FileThatIsAlwaysWrittenIsShown: nothing else waits for it, and it is
// told in the end.
func TestI15_FileThatIsAlwaysWrittenIsShown(t *testing.T) {
	t.Parallel()
	dir, read, pass := busyDir(t)
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
	pass(time.Minute)
	read()
	now := time.Now().Add(time.Hour) // of the clock that stamps the file
	write := func(i int) {
		must(t, os.Chtimes(filepath.Join(dir, "edge1.toml"), now, now.Add(time.Duration(i)*time.Second)))
	}
	for i := range 100 {
		write(i)
		s := read()
		if len(s.Entries["edge1"].Problems) > 0 {
			expect(t, s, true, s.Seq, map[string]string{"edge1": "one!", "edge2": "two"})
			if i < maxBusy {
				t.Errorf("told after %d rounds, want it later", i)
			}
			return
		}
		expect(t, s, true, s.Seq, map[string]string{"edge1": "one", "edge2": "two"})
		pass(DefaultDebounce)
	}
	t.Error("it was never told")
}

// TestI03_TimesInTheFutureCountAllTheSame: a file's times are another clock's.
func TestI03_TimesInTheFutureCountAllTheSame(t *testing.T) {
	t.Parallel()
	dir, read, pass := busyDir(t)
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	far := time.Now().Add(1000 * time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "edge1.toml"), far, far))
	expect(t, read(), true, 1, map[string]string{"edge1": "-!"}) // present, if not to be relied on
	pass(inPlace * DefaultDebounce)
	expect(t, read(), true, 2, map[string]string{"edge1": "one"})
}

// What a spec names in a directory of its own is seen by events, wherever it is.
func TestI14_NamedFileBeneathIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "file a/b/squid.yaml"})
	snaps := start(t, NewDir(dir, (&decoder{}).decode, eventsOnly()...))
	await(t, snaps, map[string]string{"edge1": "-!"})
	place(t, dir, map[string]string{"a/b/squid.yaml": "one"})
	await(t, snaps, map[string]string{"edge1": "one"})
	place(t, dir, map[string]string{"a/b/squid.yaml": "two"})
	await(t, snaps, map[string]string{"edge1": "two"})
	must(t, os.Rename(filepath.Join(dir, "a/b"), filepath.Join(dir, "a/old")))
	place(t, dir, map[string]string{"a/b/squid.yaml": "three"})
	await(t, snaps, map[string]string{"edge1": "three"})
	place(t, dir, map[string]string{"a/b/squid.yaml": "four"})
	await(t, snaps, map[string]string{"edge1": "four"})
}

func FuzzProxyName(f *testing.F) {
	for _, name := range []string{"edge1.toml", ".toml", "..data", "x.toml~", "EDGE.TOML", "a\nb.toml", "a\xff.toml", "-rf.toml", "x y.toml"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, file string) {
		name, problem := proxyName(file)
		if name != "" && (problem != "" || name+suffix != file || filepath.Base(file) != file) {
			t.Errorf("%q: name %q, problem %q", file, name, problem)
		}
		for _, r := range problem {
			if r < ' ' || r == 0x7f {
				t.Errorf("%q: problem %q is not escaped", file, problem)
			}
		}
		if len(problem) > 2000 {
			t.Errorf("a name of %d bytes: a problem of %d", len(file), len(problem))
		}
	})
}
