package source

import (
	"context"
	"time"
)

// maxQuiet times the debounce is how long events that keep coming can put off
// a read.
const maxQuiet = 10

// Run watches the directory and calls emit, on its own goroutine, with the
// snapshot of each read: one at the start, one when events have come and
// ceased, and one at every poll. A directory that is missing, or replaced, or
// can not be watched is no error: snapshots say so and Run goes on. It
// returns nil when ctx ends.
func (d *Dir) Run(ctx context.Context, emit func(Snapshot)) error {
	w := newWatch(d.dir, d.log, d.newWatcher)
	defer w.close()
	for ctx.Err() == nil {
		// Watched first and read then, no change falls between.
		watched := w.follow(d.beneath())
		snap := d.readNow(d.debounce)
		emit(snap)
		d.wait(ctx, w.signal, d.interval(snap, watched, w.covers(d.beneath())))
	}
	return nil
}

// wait returns when it is time to read again: after poll without an event, or
// when events have come and then none for the debounce.
func (d *Dir) wait(ctx context.Context, signal <-chan struct{}, poll time.Duration) {
	next := time.NewTimer(poll)
	defer next.Stop()
	select {
	case <-ctx.Done():
		return
	case <-next.C:
		return
	case <-d.asked:
		return
	case <-signal:
	}
	quiet, latest := time.NewTimer(d.debounce), time.NewTimer(maxQuiet*d.debounce)
	defer quiet.Stop()
	defer latest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-latest.C:
			return
		case <-quiet.C:
			return
		case <-signal:
			quiet.Reset(d.debounce)
		}
	}
}
