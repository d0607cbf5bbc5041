package image

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

const (
	// settle is how long after a directory's last change its time stamp is
	// trusted to show the next one: some file systems count in seconds.
	settle = 2 * time.Second
	// deepEvery is after how long files are looked at again though no
	// directory changed: one that was truncated in place shows in no directory.
	deepEvery = 5 * time.Minute
)

// contents is what was read of a tree whose marker is good.
type contents struct {
	tree    observe.Tree
	records map[string]record // by file name
	dirs    [3]stamp          // of base, disk and seed
	read    time.Time         // when reading began
}

// stamp tells a file or directory from what it was before.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

func stampOf(fi fs.FileInfo) stamp {
	s := sys(fi)
	return stamp{dev: s.Dev, ino: s.Ino, size: s.Size, mtime: s.Mtim.Nano(), ctime: s.Ctim.Nano()}
}

// record is a record file as it was read last.
type record struct {
	stamp   stamp
	rec     *observe.Record
	problem string
}

// current tells whether no directory changed since it was read.
func (c *contents) current(r *os.Root, now time.Time) bool {
	if age := now.Sub(c.read); age < 0 || age > deepEvery {
		return false
	}
	dirs, err := stampDirs(r)
	if err != nil || dirs != c.dirs {
		return false
	}
	trusted := c.read.Add(-settle).UnixNano()
	for _, d := range dirs {
		if d.mtime > trusted || d.ctime > trusted {
			return false
		}
	}
	return true
}

// stampDirs looks at base, disk and seed; a missing one has the zero stamp.
func stampDirs(r *os.Root) (dirs [3]stamp, err error) {
	for i, name := range [3]string{baseDir, diskDir, seedDir} {
		fi, err := r.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return dirs, err
		}
		dirs[i] = stampOf(fi)
	}
	return dirs, nil
}

// replace puts what was found of one name into the cache. The map that earlier
// scans gave away stays as it is.
func (c *contents) replace(name string, found []observe.Incarnation, records map[string]record) {
	maps.DeleteFunc(c.records, func(file string, _ record) bool {
		n, _, _, _ := ParseFile(file)
		return n == name
	})
	maps.Copy(c.records, records)
	all := maps.Clone(c.tree.Incarnations)
	delete(all, name)
	if len(found) > 0 {
		all[name] = found
	}
	c.tree.Incarnations = all
}
