package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// decoder is a Decoder that counts its calls. A document is "ok TEXT" or
// "file REL"; the text, or the other file's content, becomes the user-data.
// Anything else is broken.
type decoder struct {
	mu    sync.Mutex
	calls map[string]int // by file name
}

func (d *decoder) decode(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[filepath.Base(file)]++
	d.mu.Unlock()
	kind, rest, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	s := spec.Spec{Name: name}
	switch kind {
	case "ok":
		s.UserData = spec.Secret(rest)
		return s, nil
	case "file":
		content, err := open(rest)
		if err != nil {
			return spec.Spec{}, spec.Problems{{File: file, Line: 1, Column: 6, Key: "user_data_file", Message: err.Error()}}
		}
		s.UserData = content
		return s, nil
	}
	return spec.Spec{}, spec.Problems{
		{File: file, Line: 1, Column: 1, Message: "broken"},
		{File: file, Line: 2, Column: 3, Message: "broken here, too"},
	}
}

func (d *decoder) count(file string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[file]
}

// place makes files in dir, directories of their own included.
func place(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// must is for steps of a test that have to work.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// says gives, by name, what a snapshot says of each proxy: its user-data, "-"
// without a spec, with a "!" behind it when there are problems.
func says(s Snapshot) map[string]string {
	out := map[string]string{}
	for name, e := range s.Entries {
		text := "-"
		if e.Spec != nil {
			text = string(e.Spec.UserData)
		}
		if len(e.Problems) > 0 {
			text += "!"
		}
		out[name] = text
	}
	return out
}

// logs collects what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// byModes runs f in such a way that the modes of files count, even when the
// test runs as root: on a thread without the capabilities that override them.
func byModes(t *testing.T, f func()) {
	t.Helper()
	ended := make(chan error)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			ended <- err
			return
		}
		data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		if err := unix.Capset(&header, &data[0]); err != nil {
			ended <- err
			return
		}
		f()
	}()
	if err := <-ended; err != nil {
		t.Fatalf("give up capabilities: %v", err)
	}
}

// future is a clock by which all files were written long ago.
func future() time.Time { return time.Now().Add(time.Hour) }

// numbered gives n good specs.
func numbered(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("p%03d.toml", i)] = fmt.Sprintf("ok %d", i)
	}
	return files
}
