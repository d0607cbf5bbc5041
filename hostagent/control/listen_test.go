package control_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
)

// leaveStale makes a socket on which nobody answers, as a killed agent does.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
}

func TestListenMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "control.sock")
	ln, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), fs.ModeSocket|0o660; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
	ln.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the socket is still there: %v", err)
	}
}

func TestListenReplacesOnlyAStaleSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "control.sock")
	leaveStale(t, path)
	ln, err := control.Listen(path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	defer ln.Close()
	if second, err := control.Listen(path); err == nil {
		second.Close()
		t.Error("a second agent took over a socket in use")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first agent lost its socket: %v", err)
	}
	conn.Close()
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, says string }{
		{"a file in the way", file, "not a socket"},
		{"no directory", filepath.Join(dir, "run", "x.sock"), "RuntimeDirectory="},
		{"path too long", filepath.Join(dir, strings.Repeat("x", 108)), "shorter"},
	}
	for _, tt := range tests {
		ln, err := control.Listen(tt.path)
		if err == nil {
			ln.Close()
			t.Errorf("%s: no error", tt.name)
			continue
		}
		if !strings.Contains(err.Error(), tt.path) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want it to name the path and say %q", tt.name, err, tt.says)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file in the way holds %q (%v), want it untouched", got, err)
	}
}

// Of agents that find the same stale socket at the same time one wins, and
// none takes away the winner's socket.
func TestListenRace(t *testing.T) {
	t.Parallel()
	for range 50 {
		path := filepath.Join(t.TempDir(), "s.sock")
		leaveStale(t, path)
		won := make(chan net.Listener, 8)
		var wg sync.WaitGroup
		for range cap(won) {
			wg.Go(func() {
				if ln, err := control.Listen(path); err == nil {
					won <- ln
				}
			})
		}
		wg.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d agents won, want 1", len(won))
		}
		ln := <-won
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the winner does not answer: %v", err)
		}
		conn.Close()
		ln.Close()
	}
}
