package source

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// maxWatched bounds the directories beneath the spec directory that are
// watched for the files that specs name.
const maxWatched = 100

// reach is what has to be watched for the changes of files to be seen.
type reach struct {
	dirs     []string // beneath the spec directory, sorted; the spec directory itself goes without saying
	indirect bool     // and even then some change can escape
}

// reach gives that of the file rel. What is behind a link is out of reach:
// another link on the way can change what is meant without an event.
func (t tree) reach(rel string) (r reach) {
	if rel != filepath.Clean(rel) || !filepath.IsLocal(rel) {
		return reach{indirect: true}
	}
	for i := range rel {
		if rel[i] != filepath.Separator {
			continue
		}
		info, err := t.root.Lstat(rel[:i])
		if err != nil {
			return r // the directory above tells of its coming
		}
		if !info.IsDir() {
			r.indirect = info.Mode().Type() == fs.ModeSymlink
			return r
		}
		r.dirs = append(r.dirs, strings.Clone(rel[:i]))
	}
	info, err := t.root.Lstat(rel)
	r.indirect = err == nil && info.Mode().Type() == fs.ModeSymlink
	return r
}

// add puts what o needs to what r needs, as far as it is not too much to watch.
func (r *reach) add(o reach) {
	r.indirect = r.indirect || o.indirect
	for _, dir := range o.dirs {
		i, there := slices.BinarySearch(r.dirs, dir)
		switch {
		case there:
		case len(r.dirs) >= maxWatched:
			r.indirect = true
		default:
			r.dirs = slices.Insert(slices.Clip(r.dirs), i, dir)
		}
	}
}
