package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxNames bounds a directory.
const maxNames = 100_000

// load reads a whole file that a listing called regular. It is looked at again
// once open: neither a link that is there by now is followed, nor does a FIFO
// block.
func (r reader) load(path string, mode fs.FileMode) ([]byte, error) {
	if !mode.IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, cause(err)
	}
	switch owner := owner(fi); {
	case !fi.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case owner != r.uid:
		return nil, fmt.Errorf("owned by uid %d, the agent's is %d", owner, r.uid)
	case fi.Size() > int64(r.limit):
		return nil, fmt.Errorf("larger than %d bytes", r.limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(r.limit)))
	return data, cause(err)
}

func owner(fi fs.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

// list lists a directory, which may not be a link, by name.
func list(dir string) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := f.ReadDir(maxNames + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(files) > maxNames {
		return nil, fmt.Errorf("%s has more than %d files: move away what does not belong there", dir, maxNames)
	}
	slices.SortFunc(files, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return files, nil
}

// exhausted tells that an error says nothing about the file.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// cause takes the path off an error whose message names it already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
