package upstream

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Bounds of a Backoff whose fields leave them open.
const (
	LoopBackoffMin = time.Second
	LoopBackoffMax = 5 * time.Minute
)

// CredentialPoll is how long a loop waits before it looks at a credential file
// again. No server is bothered by that.
const CredentialPoll = 5 * time.Second

// Backoff gives a loop the waits between its attempts. It has no clock: the
// caller waits. The zero value is ready; it is for one goroutine.
type Backoff struct {
	// Min and Max bound the exponential part; zero: LoopBackoffMin and
	// LoopBackoffMax.
	Min, Max time.Duration
	// Jitter gives a random duration in [0, n); nil: math/rand/v2.
	Jitter func(n time.Duration) time.Duration
	// Failures counts what failed since the last success. A caller may keep it
	// over a restart.
	Failures int
}

// Next takes the outcome of an attempt and gives the wait before the next one:
// zero after a success, which also resets. A failure waits a random part of a
// bound that doubles from Min to Max, after what the server asked for by
// Retry-After, in all MaxRetryAfter at most. A credential file is looked at
// again after CredentialPoll, which changes the bound for no server.
func (b *Backoff) Next(err error) time.Duration {
	if err == nil {
		b.Failures = 0
		return 0
	}
	var credential *CredentialError
	if errors.As(err, &credential) {
		return CredentialPoll
	}
	wait := random(b.Jitter)(b.bound() + 1)
	b.Failures++
	asked := RetryAfter(err)
	if asked >= MaxRetryAfter {
		// Those who are all sent away for too long do not come back together.
		return MaxRetryAfter - wait
	}
	return min(asked+wait, MaxRetryAfter)
}

// bound gives the longest wait after as many failures as there were.
func (b *Backoff) bound() time.Duration {
	shortest, longest := b.Min, b.Max
	if shortest <= 0 {
		shortest = LoopBackoffMin
	}
	if longest <= 0 {
		longest = LoopBackoffMax
	}
	return doubled(shortest, min(longest, MaxRetryAfter), b.Failures)
}

// doubled gives shortest doubled n times, at most longest.
func doubled(shortest, longest time.Duration, n int) time.Duration {
	if n < 30 && shortest<<n > 0 {
		return min(longest, shortest<<n)
	}
	return longest
}

// Jitter gives a duration that differs from d by percent of it at most. rnd
// gives a random duration in [0, n); nil: math/rand/v2.
func Jitter(d time.Duration, percent int, rnd func(n time.Duration) time.Duration) time.Duration {
	most := d / 100 * time.Duration(percent)
	return d - most + random(rnd)(2*most+1)
}

// random gives f, or a source of its own in its place.
func random(f func(time.Duration) time.Duration) func(time.Duration) time.Duration {
	if f == nil {
		return rand.N[time.Duration]
	}
	return f
}
