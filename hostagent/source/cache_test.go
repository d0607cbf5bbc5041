package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestUnchangedFilesAreNotDecodedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "file a/squid.yaml", "a/squid.yaml": "two", "bad.toml": "?"})
	var dec decoder
	d := NewDir(dir, dec.decode, WithClock(future))
	want := map[string]string{"edge1": "one", "edge2": "two", "bad": "-!"}
	expect(t, d.ReadOnce(), true, 1, want)
	expect(t, d.ReadOnce(), true, 2, want)
	place(t, dir, map[string]string{"a/squid.yaml": "changed"})
	want["edge2"] = "changed"
	expect(t, d.ReadOnce(), true, 3, want)
	expect(t, d.ReadOnce(), true, 4, want)
	for file, want := range map[string]int{"edge1.toml": 1, "edge2.toml": 2, "bad.toml": 1} {
		if got := dec.count(file); got != want {
			t.Errorf("%s was decoded %d times, want %d", file, got, want)
		}
	}
}

// An edit in place, of the same length and with its time put back, shows in
// the change time only.
func TestI14_EditThatHardlyShowsIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "edge1.toml")
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	d := NewDir(dir, (&decoder{}).decode, WithClock(future))
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one"})
	before := stat(t, path)
	for stampOf(stat(t, path)) == stampOf(before) { // within the clock tick of the file system
		place(t, dir, map[string]string{"edge1.toml": "ok two"})
		must(t, os.Chtimes(path, before.ModTime(), before.ModTime()))
	}
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "two"})
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info
}

// What was written just before it was read may change again without a trace,
// be it the spec or a file that it names.
func TestI14_FreshFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "edge1.toml")
	yaml := filepath.Join(dir, "squid.yaml")
	place(t, dir, map[string]string{"edge1.toml": "file squid.yaml", "squid.yaml": "one"})
	for stampOf(stat(t, yaml)).ctime <= stampOf(stat(t, path)).ctime {
		place(t, dir, map[string]string{"squid.yaml": "one"})
	}
	for name, tt := range map[string]struct {
		newest string // the file that is written exactly as long ago as its time may be off
		later  time.Duration
		want   int
	}{
		"fresh spec":       {path, 0, 2},
		"fresh named file": {yaml, 0, 2},
		"nothing fresh":    {yaml, 1, 1},
	} {
		now := time.Unix(0, stampOf(stat(t, tt.newest)).ctime).Add(granularity + tt.later)
		var dec decoder
		d := NewDir(dir, dec.decode, WithClock(func() time.Time { return now }))
		d.ReadOnce()
		d.ReadOnce()
		if got := dec.count("edge1.toml"); got != tt.want {
			t.Errorf("%s: decoded %d times, want %d", name, got, tt.want)
		}
	}
}

func TestNamedFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "proxies.d")
	path := func(name string) string { return filepath.Join(dir, name) }
	place(t, dir, map[string]string{"good.yaml": "data", "sub/x.yaml": "deep", "most.bin": ""})
	place(t, root, map[string]string{"secret.yaml": "secret"})
	must(t,
		syscall.Mkfifo(path("fifo"), 0o666),
		os.Truncate(path("most.bin"), maxFile),
		os.WriteFile(path("large.bin"), nil, 0o644),
		os.Truncate(path("large.bin"), maxFile+1),
		os.Symlink("../secret.yaml", path("out.yaml")),
		os.Symlink("..", path("up")),
		os.Symlink("sub", path("inside")),
	)
	tests := []struct{ rel, want, says string }{
		{"good.yaml", "data", ""},
		{"sub/x.yaml", "deep", ""},
		{"inside/x.yaml", "deep", ""},
		{"most.bin", strings.Repeat("\x00", maxFile), ""},
		{"large.bin", "", "at most 33554432"},
		{"fifo", "", "not a regular file"},
		{"sub", "", "is a directory"},
		{"missing.yaml", "", "does not exist"},
		{"../secret.yaml", "", "leads out"},
		{path("good.yaml"), "", "leads out"},
		{"out.yaml", "", "leads out"},
		{"up/secret.yaml", "", "leads out"},
		{"a\x00b", "", "invalid argument"},
	}
	for _, tt := range tests {
		var data []byte
		var err error
		decode := func(_, _ string, _ []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
			data, err = open(tt.rel)
			return spec.Spec{}, err
		}
		place(t, dir, map[string]string{"edge1.toml": "x"})
		NewDir(dir, decode).ReadOnce()
		switch {
		case tt.says == "" && (err != nil || string(data) != tt.want):
			t.Errorf("%q: %d bytes, error %v; want %d bytes", tt.rel, len(data), err, len(tt.want))
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir)):
			t.Errorf("%q: error %v, want one with %s and %q", tt.rel, err, dir, tt.says)
		}
	}
}

func TestNamedFileThatAppearsIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "file sub/squid.yaml"})
	d := NewDir(dir, (&decoder{}).decode, WithClock(future))
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "-!"})
	place(t, dir, map[string]string{"sub/squid.yaml": "here"})
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "here"})
	must(t, os.Remove(filepath.Join(dir, "sub/squid.yaml")))
	expect(t, d.ReadOnce(), true, 3, map[string]string{"edge1": "here!"})
}

// A file that is written while it is read is not taken as it is at that moment.
func TestI03_TornReadKeepsTheLastGoodSpec(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "edge1.toml")
	must(t, os.WriteFile(path, []byte("ok one and more"), 0o644))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	_, err = f.Seek(3, 0) // as if the file had been three bytes shorter a moment ago
	must(t, err)
	if _, _, err := content(f, maxSpec); !errors.Is(err, errBusy) {
		t.Errorf("error %v, want one that says it changed", err)
	}
}

func TestDecoderErrorsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "x"})
	long := errorText(strings.Repeat("ö", 1<<20))
	d := NewDir(dir, func(string, string, []byte, func(string) ([]byte, error)) (spec.Spec, error) {
		return spec.Spec{}, long
	})
	if got := d.ReadOnce().Entries["edge1"].Problems; len(got) != 1 || len(got[0]) > maxProblem+len("…") {
		t.Errorf("problems of %d entries, %d bytes, want one within %d bytes", len(got), len(got[0]), maxProblem)
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }
