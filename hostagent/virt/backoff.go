package virt

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause between attempts to connect.
type backoff struct {
	min, max time.Duration
	failures int
}

// next gives the pause: it doubles from min to max, less up to half of it, so
// that the agents of a fleet do not come back in step.
func (b *backoff) next() time.Duration {
	d := b.max
	if b.failures < 30 && b.min<<b.failures < b.max {
		d = b.min << b.failures
	}
	b.failures++
	return d - rand.N(d/2+1)
}

func (b *backoff) reset() { b.failures = 0 }

// wait pauses, or returns when ctx ends.
func (b *backoff) wait(ctx context.Context) {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
