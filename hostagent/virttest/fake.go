package virttest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Fake is a hypervisor in memory. Its methods behave as those of the real link
// and may be called from any goroutine; they change state only in the call, so
// a test that calls from one goroutine is deterministic.
type Fake struct {
	namespace string

	mu        sync.Mutex
	domains   map[string]*domain // by UUID
	networks  map[string][]netip.Prefix
	leases    map[string]netip.Addr // by MAC, kept for ever as a DHCP server does
	connected bool
	connects  uint64
	events    eventQueue
	calls     map[string]int
	changes   []string
	faults    map[string]*faults
	gate      func(method string) error // nil: open
	short     shortList
	stuck     int
	degraded  string
	inactive  map[string]bool // networks that are not started
	full      bool            // disks have no room
}

// New makes a Fake without domains, with the network "default"
// (192.168.122.0/24), whose link is up: Connected is the first event.
// namespace is that of the metadata it reads and writes.
func New(namespace string) *Fake {
	f := &Fake{
		namespace: namespace,
		domains:   map[string]*domain{},
		networks:  map[string][]netip.Prefix{DefaultNetwork: {DefaultPrefix()}},
		leases:    map[string]netip.Addr{},
		events:    newEventQueue(),
		calls:     map[string]int{},
		faults:    map[string]*faults{},
		inactive:  map[string]bool{},
	}
	f.RestoreLink()
	return f
}

// Run waits until ctx ends: the Fake has nothing to keep up.
func (f *Fake) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Events gives the events; there is one stream, never closed.
func (f *Fake) Events() <-chan observe.Event { return f.events.out }

// Stats tells how the link is doing.
func (f *Fake) Stats() observe.LinkStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := observe.LinkStats{Connected: f.connected, Connects: f.connects, Stuck: f.stuck, Degraded: f.degraded}
	if f.connected {
		s.Open = 1
	}
	return s
}

// Calls gives how often each method was called, failed calls included.
func (f *Fake) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Changes gives the calls that changed something, in order, each as method and
// UUID ("Start 0a1b…"). Admin actions are not among them.
func (f *Fake) Changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.changes)
}

// String prints all domains, sorted by name and UUID: a diff of two prints
// shows what changed.
func (f *Fake) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for _, d := range f.sorted() {
		d.print(&b, f.namespace)
	}
	return b.String()
}

func (f *Fake) sorted() []*domain {
	return slices.SortedFunc(maps.Values(f.domains), func(a, b *domain) int {
		return strings.Compare(a.name()+" "+a.uuid, b.name()+" "+b.uuid)
	})
}

// AddNetwork makes a libvirt network known, with its subnets.
func (f *Fake) AddNetwork(name string, prefixes ...netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.networks[name] = prefixes
}

// what names a call in its error.
type what struct{ op, object string }

func (w what) fail(class observe.Class, format string, args ...any) error {
	return &observe.Error{Op: w.op, Object: w.object, Class: class, Err: fmt.Errorf(format, args...)}
}

func (w what) absent() error { return w.fail(observe.Transient, "%w", observe.ErrNoDomain) }
