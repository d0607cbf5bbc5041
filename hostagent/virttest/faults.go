package virttest

import (
	"context"
	"slices"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Forever is a number of times that never runs out.
const Forever = -1

// callTimeout is how long a call waits for a hanging hypervisor, as the real
// link does by default.
const callTimeout = 30 * time.Second

// fault is an error given a number of times.
type fault struct {
	times int
	err   error
}

// take gives the error while there is one left.
func (x *fault) take() error {
	if x.times == 0 {
		return nil
	}
	if x.times > 0 {
		x.times--
	}
	return x.err
}

// faults are those of one method.
type faults struct {
	before, after fault
	hang          chan struct{} // closed by the release
}

func (f *Fake) faultsOf(method string) *faults {
	x := f.faults[method]
	if x == nil {
		x = &faults{}
		f.faults[method] = x
	}
	return x
}

// Fail makes the next calls of method ("Start") return err and do nothing:
// times of them, or all with Forever. Zero ends it.
func (f *Fake) Fail(method string, times int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultsOf(method).before = fault{times, err}
}

// FailAfter makes the next calls of method do their work and return err all
// the same: an answer that got lost.
func (f *Fake) FailAfter(method string, times int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultsOf(method).after = fault{times, err}
}

// Hang makes calls of method wait, until their context ends, 30 s have passed,
// or release is called; only then they go on.
func (f *Fake) Hang(method string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.faultsOf(method).hang = gate
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if x := f.faultsOf(method); x.hang == gate {
			x.hang = nil
			close(gate)
		}
	}
}

// shortList makes lists incomplete.
type shortList struct {
	times int
	uuids []string
}

// ShortList leaves the domains with these UUIDs out of the next lists: what the
// real link promises never to do, and its users survive.
func (f *Fake) ShortList(times int, uuids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = shortList{times, slices.Clone(uuids)}
}

// changing are the methods that change something.
var changing = [...]string{
	"Define", "CreateTransient", "Start", "Resume", "Shutdown", "Destroy", "Undefine",
	"SetAutostart", "SetMetadata", "SetBandwidth", "DropSaved",
}

// Gate has pass called before each changing call that no fault keeps from its
// effect. An error of pass is the call's, and nothing changes: an agent that
// died right before. nil opens the gate. pass may use the Fake.
func (f *Fake) Gate(pass func(method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate = pass
}

// passes asks the gate. The caller holds the lock, which is not held meanwhile.
func (f *Fake) passes(method string) error {
	gate := f.gate
	if gate == nil || !slices.Contains(changing[:], method) {
		return nil
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	return gate(method)
}

// call runs effect, holding the lock, unless a fault or ctx keeps it from that.
func (f *Fake) call(ctx context.Context, method string, w what, effect func() error) error {
	if err := f.begin(ctx, method, w); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.faultsOf(method)
	if err := x.before.take(); err != nil {
		return err
	}
	if !f.connected {
		return w.fail(observe.Disconnected, "no connection to the hypervisor")
	}
	if err := f.passes(method); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return x.after.take()
}

// begin counts the call and waits while its method hangs.
func (f *Fake) begin(ctx context.Context, method string, w what) error {
	f.mu.Lock()
	f.calls[method]++
	gate := f.faultsOf(method).hang
	f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return w.fail(observe.Transient, "%w", err)
	}
	if gate == nil {
		return nil
	}
	f.addStuck(1)
	defer f.addStuck(-1)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return w.fail(observe.Transient, "no answer from the hypervisor: %w", ctx.Err())
	}
}

func (f *Fake) addStuck(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck += n
}

// onDomain is call for a method about one domain, which has to be there.
func (f *Fake) onDomain(ctx context.Context, method string, w what, effect func(*domain) error) error {
	return f.call(ctx, method, w, func() error {
		d, ok := f.domains[w.object]
		if !ok {
			return w.absent()
		}
		return effect(d)
	})
}

// record notes that a call changed a domain, and tells the reader.
func (f *Fake) record(method string, d *domain, detail string) {
	f.changes = append(f.changes, method+" "+d.uuid)
	f.changed(d.uuid, detail)
}
