package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// tree is the directory during one read. Every path is relative to it and
// resolved beneath it; a link that leads out of it, as each absolute one
// does, is an error.
type tree struct {
	dir   string
	root  *os.Root
	at    *os.File // the directory itself
	quiet *quiet
}

// stamp is what tells from outside that a file is another or has other
// content. The zero stamp stands for a file that can not be looked at.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
}

// granularity is how coarse a file system's times may be: within it a file
// can change and keep its stamp.
const granularity = 2 * time.Second

// firm tells whether content read at that time or later can not have changed
// since without s changing too.
func (s stamp) firm(read time.Time) bool {
	return max(s.mtime, s.ctime) < read.Add(-granularity).UnixNano()
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

func (t tree) path(rel string) string { return filepath.Join(t.dir, rel) }

func (t tree) stamp(rel string) stamp {
	info, err := t.root.Stat(rel)
	if err != nil {
		return stamp{}
	}
	return stampOf(info)
}

// gone tells whether nothing at all, not even a dangling link, is at rel.
func (t tree) gone(rel string) bool {
	_, err := t.root.Lstat(rel)
	return errors.Is(err, fs.ErrNotExist)
}

// read gives the content of the regular file rel, which may have at most
// limit bytes; errBusy when it may be about to change. It never waits for a
// FIFO's writer or a device. Errors say what is wrong and what to do, and leave
// naming the file to the caller.
func (t tree) read(rel string, limit int64) ([]byte, stamp, error) {
	// Looked at before it is opened: opening a device can have effects.
	info, err := t.root.Stat(rel)
	if err != nil {
		return nil, stamp{}, explain(err)
	}
	if err := regular(info, limit); err != nil {
		return nil, stamp{}, err
	}
	f, err := t.open(rel)
	if err != nil {
		return nil, stamp{}, explain(err)
	}
	defer f.Close()
	data, st, err := content(f, limit)
	if err == nil || errors.Is(err, errBusy) {
		if t.quiet.busy(rel, st) {
			return nil, stamp{}, errBusy
		}
	}
	return data, st, err
}

func content(f *os.File, limit int64) ([]byte, stamp, error) {
	before, err := f.Stat()
	if err != nil {
		return nil, stamp{}, explain(err)
	}
	if err := regular(before, limit); err != nil {
		return nil, stamp{}, err
	}
	data := make([]byte, before.Size()+1) // one more, to see whether it has grown
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, stamp{}, explain(err)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, stamp{}, explain(err)
	}
	if stampOf(before) != stampOf(after) || int64(n) != after.Size() {
		return nil, stamp{}, errBusy
	}
	return data[:n], stampOf(after), nil
}

func regular(info fs.FileInfo, limit int64) error {
	switch {
	case info.IsDir():
		return errors.New("is a directory: put a regular file in its place, or rename it")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file: put one in its place, or rename it")
	case info.Size() > limit:
		return fmt.Errorf("has %d bytes, at most %d are read: make it smaller", info.Size(), limit)
	}
	return nil
}

func explain(err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist, or is a link to what does not: create it, or correct the link")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("the agent's user may not read it: fix its owner, group or mode")
	case errors.Is(err, syscall.ELOOP):
		return errors.New("is a loop of links: put a regular file in its place")
	case errors.Is(err, syscall.EXDEV), !errors.As(err, &errno):
		// Of openat2(2), and the one error of os.Root that is not the system's.
		return errors.New("leads out of the spec directory, as every absolute path does: use a relative one beneath the directory, or a copy")
	default:
		return fmt.Errorf("read it: %w", err)
	}
}
