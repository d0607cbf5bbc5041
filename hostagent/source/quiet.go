package source

import (
	"errors"
	"time"
)

// A file that is written in place is seen half-written, and half a document
// may be a valid one. That its writer is done shows in the file's times only:
// what renames, or sets the mode or the times of a file once it is written,
// makes its change time later than that of its content. Such a file has to be
// unchanged for the debounce, any other inPlace times as long.
const inPlace = 5

// maxBusy times the debounce is how long a file can be under way before that
// is shown as a problem.
const maxBusy = 10

// errBusy is the error of a file whose content does not count yet.
var errBusy = errors.New("is being written: what it says counts once it has not changed for a moment")

// quiet finds out how long files have not changed. With a debounce of 0 all
// have not for long enough.
type quiet struct {
	debounce time.Duration
	now      time.Time
	old      map[string]look // of the read before
	looks    map[string]look // of this read, by path beneath the directory
	wait     time.Duration   // until the first of those that have to wait need not; 0: none has
}

// look is when a file was first seen with its stamp.
type look struct {
	stamp stamp
	since time.Time
}

// newQuiet is for one read, with what the last one learned.
func newQuiet(debounce time.Duration, now time.Time, last map[string]look) *quiet {
	return &quiet{debounce: debounce, now: now, old: last, looks: map[string]look{}}
}

// busy tells whether the file rel, which has the stamp s, may be about to
// change again.
func (q *quiet) busy(rel string, s stamp) bool {
	if q.debounce == 0 {
		return false
	}
	l, known := q.old[rel]
	if !known || l.stamp != s {
		l = look{s, q.now}
	}
	q.looks[rel] = l
	// The file's own times may be of another host's clock, or in the future.
	age := max(q.now.Sub(l.since), q.now.Sub(time.Unix(0, max(s.mtime, s.ctime))))
	need := q.debounce
	if s.ctime <= s.mtime {
		need *= inPlace
	}
	if age >= need {
		return false
	}
	if left := need - age; q.wait == 0 || left < q.wait {
		q.wait = left
	}
	return true
}
