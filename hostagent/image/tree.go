package image

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// Defaults of New.
const (
	DefaultQemuImg  = "qemu-img"
	DefaultDeadline = 30 * time.Second
	DefaultMaxBase  = 64 << 30 // bytes
)

// Fetcher gets an object over https; upstream.Client is one. w implements
// upstream.Restarter and upstream.Expecter.
type Fetcher interface {
	Fetch(ctx context.Context, url string, w io.Writer, limit int64, progress func(done, total int64)) error
}

// Tree is the image tree of one host. It is safe for concurrent use, within
// what the package comment says.
type Tree struct {
	root, host string
	qemuImg    string
	deadline   time.Duration
	maxBase    int64
	fetcher    Fetcher
	now        func() time.Time
	device     func(path string, fi fs.FileInfo) uint64
	mount      func(root *os.Root, path string) (id uint64, ok bool)
	free       func(root *os.Root) uint64
	step       func(step string) error

	reserve atomic.Uint64 // bytes

	home atomic.Pointer[uint64] // the device the marker was first found on

	mu    sync.Mutex
	cache *contents        // nil: read everything
	sizes map[string]int64 // virtual sizes of bases, by file name

	// baseUse is held for reading from the look at a base to the overlay on it,
	// for writing while bases are removed. A record names the base before.
	baseUse sync.RWMutex
	walks   chan struct{} // holds a token while chains are walked

	flightMu sync.Mutex
	flights  map[string]*flight // by file name
}

// Option changes a default of New.
type Option func(*Tree)

// WithQemuImg names the qemu-img to run: a path, or a name looked up in PATH.
func WithQemuImg(path string) Option { return func(t *Tree) { t.qemuImg = path } }

// WithDeadline bounds one run of qemu-img.
func WithDeadline(d time.Duration) Option { return func(t *Tree) { t.deadline = d } }

// WithClock replaces time.Now.
func WithClock(now func() time.Time) Option { return func(t *Tree) { t.now = now } }

// WithFetcher sets the client that fetches https sources.
func WithFetcher(f Fetcher) Option { return func(t *Tree) { t.fetcher = f } }

// WithMaxBase bounds a base image, in bytes.
func WithMaxBase(n int64) Option { return func(t *Tree) { t.maxBase = n } }

// WithReserve has no base image take what would leave fewer than n bytes free;
// without it, 0.
func WithReserve(n uint64) Option { return func(t *Tree) { t.SetReserve(n) } }

// SetReserve changes what WithReserve has set.
func (t *Tree) SetReserve(n uint64) { t.reserve.Store(n) }

// withDevice replaces how the device of root, marker and directories is found.
func withDevice(f func(path string, fi fs.FileInfo) uint64) Option {
	return func(t *Tree) { t.device = f }
}

// withMount replaces how the mount of root, marker and directories is found.
func withMount(f func(root *os.Root, path string) (uint64, bool)) Option {
	return func(t *Tree) { t.mount = f }
}

// withFree replaces how the room that is left is found.
func withFree(f func(*os.Root) uint64) Option { return func(t *Tree) { t.free = f } }

// New makes a Tree for the directory root, an absolute path, of the host with
// the id hostID. It does no I/O.
func New(root, hostID string, opt ...Option) *Tree {
	t := &Tree{
		root:     filepath.Clean(root),
		host:     hostID,
		qemuImg:  DefaultQemuImg,
		deadline: DefaultDeadline,
		maxBase:  DefaultMaxBase,
		now:      time.Now,
		device:   func(_ string, fi fs.FileInfo) uint64 { return sys(fi).Dev },
		mount:    mountID,
		free:     freeBytes,
		step:     func(string) error { return nil },
		sizes:    map[string]int64{},
		flights:  map[string]*flight{},
		walks:    make(chan struct{}, 1),
	}
	for _, o := range opt {
		o(t)
	}
	if t.fetcher == nil {
		t.fetcher = upstream.New(upstream.Options{})
	}
	return t
}

// sys gives what Linux knows of a file that was looked at.
func sys(fi fs.FileInfo) *syscall.Stat_t { return fi.Sys().(*syscall.Stat_t) }
