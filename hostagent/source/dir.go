package source

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Decoder makes a spec of a file's content. name is the proxy's, file the
// path to show to people. An error that is spec.Problems is shown problem by
// problem. open reads another file beneath the same directory, of at most 32
// MiB; its errors name the file and what to do.
type Decoder func(name, file string, data []byte, open func(rel string) ([]byte, error)) (spec.Spec, error)

// Defaults of the options of NewDir.
const (
	DefaultDebounce  = 200 * time.Millisecond
	DefaultPoll      = 30 * time.Second // file events make it quick; this repairs lost ones
	DefaultBlindPoll = 2 * time.Second
)

// Dir is a directory of spec files as a source: one file NAME.toml is one
// proxy. It is safe for use by several goroutines, but only one may Run it.
type Dir struct {
	dir        string
	decode     Decoder
	now        func() time.Time
	log        *slog.Logger
	debounce   time.Duration
	poll       time.Duration // between reads when events tell of changes
	blindPoll  time.Duration // between reads when they do not
	newWatcher func() (*fsnotify.Watcher, error)
	asked      chan struct{} // holds one request to read soon

	mu      sync.Mutex
	seq     uint64
	entries map[string]Entry  // of the last read that was not in doubt
	files   map[string]parsed // by file name; what entries were made of
	reach   reach             // what has to be watched besides dir
	quiet   *quiet            // of the last read
	settle  settling
}

// Option changes a default of NewDir.
type Option func(*Dir)

// WithClock sets the clock; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(d *Dir) { d.now = now } }

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(d *Dir) { d.log = log } }

// WithDebounce sets for how long no event must come before Run reads the
// directory; after ten times that it reads it anyway. For as long a file must
// not have changed for its content to count, and five times as long when it
// was written in place.
func WithDebounce(quiet time.Duration) Option { return func(d *Dir) { d.debounce = quiet } }

// WithPoll sets how often Run reads the directory with no event: usually, and
// when it can not rely on events (they are not available, the directory is in
// doubt, or specs use files that are outside of it or behind links).
func WithPoll(usual, blind time.Duration) Option {
	return func(d *Dir) { d.poll, d.blindPoll = usual, blind }
}

// NewDir gives the source for the directory dir, which need not exist yet. It
// does no I/O.
func NewDir(dir string, decode Decoder, opt ...Option) *Dir {
	d := &Dir{
		dir:        filepath.Clean(dir),
		decode:     decode,
		now:        time.Now,
		log:        slog.New(slog.DiscardHandler),
		debounce:   DefaultDebounce,
		poll:       DefaultPoll,
		blindPoll:  DefaultBlindPoll,
		newWatcher: fsnotify.NewWatcher,
		asked:      make(chan struct{}, 1),
		entries:    map[string]Entry{},
		files:      map[string]parsed{},
		quiet:      newQuiet(0, time.Time{}, nil),
	}
	for _, o := range opt {
		o(d)
	}
	return d
}

// Restore sets the last good state, by proxy name, as kept over a restart, and
// the Identity of the snapshot that it was kept with; "" when it was kept with
// none. It is for before the first read: what a read finds replaces it. Of an
// entry only Spec has to be set; what follows from it is computed, because it
// may follow otherwise since an upgrade.
func (d *Dir) Restore(entries map[string]Entry, identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle.restored(identity)
	d.entries = make(map[string]Entry, len(entries))
	for name, e := range entries {
		e.Name = name
		if e.File == "" {
			e.File = filepath.Join(d.dir, name+suffix)
		}
		if e.Spec != nil {
			e.Hash, e.Warnings = e.Spec.Hash(), e.Spec.Warnings()
		}
		d.entries[name] = e
	}
}

// Rescan makes Run read soon, event or not. It does not block.
func (d *Dir) Rescan() {
	select {
	case d.asked <- struct{}{}:
	default: // one is waiting already
	}
}

// Redecode makes decode count: every file is decoded anew, soon when Run runs.
// Until then, and for files that it finds wrong, the specs last read stand.
func (d *Dir) Redecode(decode Decoder) {
	d.mu.Lock()
	d.decode, d.files = decode, map[string]parsed{}
	d.mu.Unlock()
	d.Rescan()
}

// ReadOnce reads the directory now, with files as they are at this moment, be
// they half-written. Content that looks unchanged since the last read (size,
// times, inode of every file involved) is not read again.
func (d *Dir) ReadOnce() Snapshot { return d.readNow(0) }

// readNow reads the directory. The content of files that have changed within
// the debounce does not count yet.
func (d *Dir) readNow(debounce time.Duration) Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	snap := Snapshot{Origin: OriginDir, Location: d.dir}
	result, err := d.read(newQuiet(debounce, d.now(), d.quiet.looks))
	if err != nil {
		snap.Problem = fmt.Sprintf("%s: %v; until then the specs last read stand", d.dir, err)
	} else {
		d.seq++
		d.entries, d.files, d.reach, d.quiet = result.entries, result.files, result.reach, result.quiet
		snap.Synced, snap.Ignored, snap.Identity = true, result.ignored, result.id.keep()
	}
	snap.Seq, snap.Read = d.seq, d.now()
	snap.Entries = maps.Clone(d.entries)
	return snap
}

// beneath gives the directories that are to be watched besides dir.
func (d *Dir) beneath() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var paths []string
	for _, rel := range d.reach.dirs {
		paths = append(paths, filepath.Join(d.dir, rel))
	}
	return paths
}

// interval is how long Run waits for an event after snap. covered tells
// whether what the read found to be watched was watched before it.
func (d *Dir) interval(snap Snapshot, watched, covered bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := d.blindPoll
	if watched && snap.Synced && !d.reach.indirect {
		wait = d.poll
	}
	if watched && !covered {
		wait = min(wait, d.debounce)
	}
	if d.quiet.wait > 0 {
		wait = min(wait, d.quiet.wait)
	}
	return wait
}
