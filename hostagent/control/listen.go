package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketMode    = 0o660
	maxSocketPath = 107         // bytes; sockaddr_un has 108 with the final NUL, unix(7)
	answerTimeout = time.Second // for a process that may still hold the socket
)

// Listen makes the socket at path, readable and writable by its owner and its
// group. The directory must exist. A socket that is already there is taken
// away only when nobody answers on it; anything else at path is an error.
// Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("control socket %s: the path has %d bytes, the kernel takes %d: choose a shorter one", path, len(path), maxSocketPath)
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	ln, err := bind(path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	return ln, nil
}

// lockDir keeps two agents that start at once from taking away each other's
// socket.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: create it, or let systemd do so with RuntimeDirectory=", dir)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w: is another agent starting?", dir, err)
	}
	return func() { f.Close() }, nil
}

// removeStale removes what an agent that was killed left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket is in the way: remove it or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, answerTimeout)
	if err == nil {
		conn.Close()
		return errors.New("another agent answers on it: stop that one first")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out whether another agent uses it: %w", err)
	}
	return os.Remove(path)
}

// bind makes the socket. Its mode is set before it has a name, so that it is
// never open to others, whatever the umask; the umask may have taken away
// bits, which are given back afterwards.
func bind(path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		if err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), socketMode) }); err != nil {
			return err
		}
		return chmod
	}}
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}
