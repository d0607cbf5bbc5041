package image

import "context"

// flight is one fetch of a base image that others may wait for.
type flight struct {
	done      chan struct{} // closed when err and abandoned are final
	err       error
	abandoned bool // ended with its own caller's context: nothing is known of the image
}

// single runs do for key unless somebody already does, and then waits for their
// result. When those gave up because their own context ended, it is the next
// one's turn. A waiter leaves with its context.
func (t *Tree) single(ctx context.Context, key string, do func() error) error {
	for {
		f, leader := t.join(key)
		if leader {
			return t.lead(ctx, key, f, do)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.done:
		}
		if !f.abandoned {
			return f.err
		}
	}
}

func (t *Tree) join(key string) (f *flight, leader bool) {
	t.flightMu.Lock()
	defer t.flightMu.Unlock()
	if f := t.flights[key]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{}), abandoned: true}
	t.flights[key] = f
	return f, true
}

// lead is deferred-safe: waiters go on even if do panics.
func (t *Tree) lead(ctx context.Context, key string, f *flight, do func() error) error {
	defer func() {
		t.flightMu.Lock()
		delete(t.flights, key)
		t.flightMu.Unlock()
		close(f.done)
	}()
	f.err = do()
	f.abandoned = f.err != nil && ctx.Err() != nil
	return f.err
}

// unlessFlying runs do, and keeps fetches from beginning meanwhile; while key's
// fetch is under way it does nothing.
func (t *Tree) unlessFlying(key string, do func() error) error {
	t.flightMu.Lock()
	defer t.flightMu.Unlock()
	if t.flights[key] != nil {
		return nil
	}
	return do()
}
