package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own, after become has made that thread
// somebody else.
func onThread(t *testing.T, become func() error, f func()) {
	t.Helper()
	ended := make(chan error)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := become(); err != nil {
			ended <- err
			return
		}
		f()
	}()
	if err := <-ended; err != nil {
		t.Fatalf("become somebody else: %v", err)
	}
}

// byModes runs f in such a way that the modes of files count, even when the
// test runs as root: without the capabilities that override them.
func byModes(t *testing.T, f func()) {
	t.Helper()
	onThread(t, func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		return unix.Capset(&header, &data[0])
	}, f)
}

func TestPermissionDeniedNamesTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	byModes(t, func() {
		conn, err := Dial(path).dial(t.Context())
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "group ") {
			t.Errorf("error %v, want permission denied with the group to join", err)
		}
	})
}

// endless gives a connection for each Accept.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) {
	a, b := net.Pipe()
	b.Close()
	return a, nil
}

func (endless) Close() error { return nil }

func TestI15_ConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := limit(endless{}, 2)
		accepted := make(chan net.Conn, 10)
		go func() {
			defer close(accepted)
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		synctest.Wait()
		if got := len(accepted); got != 2 {
			t.Errorf("%d connections accepted, want 2", got)
		}
		first := <-accepted
		first.Close()
		first.Close() // a second Close must not free a second slot
		synctest.Wait()
		if got := len(accepted); got != 2 {
			t.Errorf("after one was closed %d more are there, want 2", got)
		}
		ln.Close()
		synctest.Wait()
		for range accepted {
		}
	})
}
