package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"
)

func most(n time.Duration) time.Duration { return n - 1 }
func least(time.Duration) time.Duration  { return 0 }

func TestBackoffOfALoop(t *testing.T) {
	t.Parallel()
	asked := func(d time.Duration) error { return &Error{Err: &StatusError{Code: 500, RetryAfter: d}} }
	tests := []struct {
		name     string
		failures int
		err      error
		jitter   func(time.Duration) time.Duration
		want     time.Duration
		after    int
	}{
		{"a success resets", 7, nil, most, 0, 0},
		{"first", 0, errTest, most, time.Second, 1},
		{"fourth", 3, errTest, most, 8 * time.Second, 4},
		{"full jitter", 3, errTest, least, 0, 4},
		{"capped", 20, errTest, most, 5 * time.Minute, 21},
		{"no overflow", 1 << 40, errTest, most, 5 * time.Minute, 1<<40 + 1},
		{"asked for", 0, asked(40 * time.Second), least, 40 * time.Second, 1},
		{"asked for and spread", 3, asked(40 * time.Second), most, 48 * time.Second, 4},
		{"asked for nearly too much", 20, asked(59 * time.Minute), most, time.Hour, 21},
		{"asked for too much", 3, asked(time.Hour), least, time.Hour, 4},
		{"asked for too much and spread", 3, asked(time.Hour), most, time.Hour - 8*time.Second, 4},
		{"a file is not there", 3, fmt.Errorf("get: %w", &CredentialError{Err: fs.ErrNotExist}), most, 5 * time.Second, 3},
	}
	for _, tt := range tests {
		b := Backoff{Failures: tt.failures, Jitter: tt.jitter}
		if got := b.Next(tt.err); got != tt.want || b.Failures != tt.after {
			t.Errorf("%s: %v after %d failures, want %v after %d", tt.name, got, b.Failures, tt.want, tt.after)
		}
	}
}

func TestBackoffHasItsOwnBoundsAndSource(t *testing.T) {
	t.Parallel()
	b := Backoff{Min: time.Minute, Max: 2 * time.Minute}
	for range 100 {
		if d := b.Next(errTest); d < 0 || d > 2*time.Minute {
			t.Errorf("waits %v", d)
		}
	}
	capped := Backoff{Min: time.Minute, Max: 100 * time.Hour, Jitter: most, Failures: 29}
	if d := capped.Next(errTest); d != MaxRetryAfter {
		t.Errorf("waits %v", d)
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		jitter func(time.Duration) time.Duration
		want   time.Duration
	}{{least, 48 * time.Second}, {most, 72 * time.Second}, {func(n time.Duration) time.Duration { return n / 2 }, time.Minute}} {
		if got := Jitter(time.Minute, 20, tt.jitter); got != tt.want {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		d := Jitter(time.Minute, 20, nil)
		if seen[d] = true; d < 48*time.Second || d > 72*time.Second {
			t.Errorf("%v is more than 20 %% off a minute", d)
		}
	}
	if len(seen) < 2 || Jitter(0, 20, nil) != 0 {
		t.Errorf("%d different waits of 20", len(seen))
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	status := func(code int) error { return &Error{Err: &hidden{err: &StatusError{Code: code}}} }
	tests := []struct {
		err  error
		want Class
	}{
		{errTest, Transient},
		{context.DeadlineExceeded, Transient},
		{ErrStalled, Transient},
		{status(408), Transient},
		{status(425), Transient},
		{status(429), Transient},
		{status(500), Transient},
		{status(503), Transient},
		{status(501), Permanent},
		{status(304), Permanent},
		{status(400), Permanent},
		{status(401), Permanent},
		{status(404), Permanent},
		{status(413), Permanent},
		{&StatusError{Code: 503, RetryAfter: time.Second}, Waiting},
		{&StatusError{Code: 403, RetryAfter: time.Second}, Waiting},
		{&ProxyError{Code: 407}, Permanent},
		{&ProxyError{Code: 502}, Transient},
		{ErrProxySettings, Permanent},
		{fmt.Errorf("%w of 1 byte", ErrTooLarge), Permanent},
		{ErrEncoded, Permanent},
		{&RedirectError{}, Permanent},
		{&tls.CertificateVerificationError{Err: errTest}, Permanent},
		{errors.Join(&CredentialError{Class: Permanent, Err: errTest}), Permanent},
		{&Error{Err: &CredentialError{Class: Transient, Err: errTest}}, Transient},
	}
	for _, tt := range tests {
		if got := ClassOf(tt.err); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.err, got, tt.want)
		}
	}
}
