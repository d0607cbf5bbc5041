package main

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// hostFS is a host's / whose denied files can not be read.
type hostFS struct {
	fstest.MapFS
	denied []string
}

func (h hostFS) Open(name string) (fs.File, error) {
	for _, d := range h.denied {
		if beneath(d, name) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
		}
	}
	return h.MapFS.Open(name)
}

// ReadFile and the others go by Open, so that denied holds for them too.
func (h hostFS) ReadFile(name string) ([]byte, error) { return fs.ReadFile(openOnly{h}, name) }
func (h hostFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(openOnly{h}, name)
}
func (h hostFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(openOnly{h}, name) }

type openOnly struct{ fs fs.FS }

func (o openOnly) Open(name string) (fs.File, error) { return o.fs.Open(name) }

// host makes a / from "path" or "path=content".
func host(files ...string) hostFS {
	h := hostFS{MapFS: fstest.MapFS{}}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		h.MapFS[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return h
}

func (h hostFS) deny(names ...string) hostFS {
	h.denied = names
	return h
}

// want is a finding as a test knows it: pieces of what it says.
type want struct {
	what   string
	level  level
	pieces []string
}

func compare(t *testing.T, got []finding, wants []want) {
	t.Helper()
	var gotHeads, wantHeads []string
	for _, f := range got {
		gotHeads = append(gotHeads, string(f.level)+" "+f.what)
	}
	for _, w := range wants {
		wantHeads = append(wantHeads, string(w.level)+" "+w.what)
	}
	if diff := cmp.Diff(wantHeads, gotHeads); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	for i, w := range wants {
		text := got[i].detail + "\n" + got[i].remedy
		for _, p := range w.pieces {
			if piece, absent := strings.CutPrefix(p, "!"); absent == strings.Contains(text, piece) {
				t.Errorf("%s: want %q (absent: %v) in\n%s", w.what, piece, absent, text)
			}
		}
		lines(t, got[i])
	}
}

// lines checks that a finding fits the terminal, but for words longer than it.
func lines(t *testing.T, f finding) {
	t.Helper()
	var out bytes.Buffer
	printFinding(&out, f)
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); len([]rune(line)) > width && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

// TestHostChecksInOrder: the daemon first, since what follows says "the
// daemon"; both also without a link to libvirt, when they are needed most.
func TestHostChecksInOrder(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	compare(t, checkHost(t.Context(), host("run/libvirt/libvirt-sock"), cfg, wired{}, false),
		[]want{{"libvirt daemon", ok, []string{"libvirtd"}}, {"confinement", ok, []string{"libvirt is not reached"}}})
	cfg.Libvirt.URI = "test:///default"
	compare(t, checkHost(t.Context(), host(), cfg, wired{}, true), []want{{"libvirt daemon and confinement", warn, []string{"test driver"}}})
}
