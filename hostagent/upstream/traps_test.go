package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The traps of the retry library and of net/http that this package keeps its
// callers out of, each under its name. TestCase147_TheBodyIsWholeEachTime is
// about bodies that are not rewound, TestCase142_RotationOfTheClientCertificate
// about certificates that are asked for once a connection,
// TestI12_Case140_CredentialsStayAtTheOrigin about tokens that follow a redirect.

// The library's waits are the same at every client, and those with jitter leave
// their bounds.
func TestTrap_NoJitter(t *testing.T) {
	t.Parallel()
	c := New(Options{Jitter: func(n time.Duration) time.Duration { return n / 3 }})
	b := Backoff{Jitter: func(n time.Duration) time.Duration { return n / 3 }}
	for attempt := range 6 {
		bound := time.Second << attempt
		if got := c.backoff(time.Second, time.Minute, attempt, nil); got != (bound+1)/3 {
			t.Errorf("attempt %d waits %v", attempt, got)
		}
		if got := b.Next(errTest); got != (bound+1)/3 {
			t.Errorf("attempt %d of a loop waits %v", attempt, got)
		}
	}
}

// The library's client waits for ever.
func TestTrap_NoTimeOut(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	o := originOf(t, s, "", OriginOptions{Stall: 500 * time.Millisecond})
	start := time.Now()
	if _, err := o.Get(t.Context(), Request{Wait: time.Second}); !errors.Is(err, ErrStalled) || time.Since(start) < time.Second {
		t.Errorf("with a wish to wait: %v after %v", err, time.Since(start))
	}
	if _, err := o.Get(t.Context(), Request{}); !errors.Is(err, ErrStalled) {
		t.Errorf("Get = %v", err)
	}
	if _, err := o.Put(t.Context(), "application/json", nil, nil); !errors.Is(err, ErrStalled) {
		t.Errorf("Put = %v", err)
	}
}

// Case 138: the library obeys any Retry-After.
func TestTrap_Case138_UncappedRetryAfter(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"7":                             7 * time.Second,
		"3600":                          time.Hour,
		"3601":                          time.Hour,
		"9223372036854775807":           time.Hour,
		"99999999999999999999999999":    time.Hour,
		"Thu, 31 Dec 2099 23:59:59 GMT": time.Hour,
		hour.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		hour.Add(-time.Hour).Format(http.TimeFormat):       0,
		"-5":   0,
		"soon": 0,
		"":     0,
	}
	for after, want := range tests {
		err := answerOf(t, 503, after)
		if got := RetryAfter(err); got != want {
			t.Errorf("%q: %v, want %v", after, got, want)
		}
		b := Backoff{Jitter: most, Failures: 20}
		if wait := b.Next(err); wait > time.Hour {
			t.Errorf("%q: waits %v", after, wait)
		}
	}
}

// The library looks for Retry-After at 429 and 503 only.
func TestTrap_RetryAfterIgnoredOn500(t *testing.T) {
	t.Parallel()
	for _, code := range []int{403, 413, 429, 500, 502, 503, 504} {
		err := answerOf(t, code, "40")
		b := Backoff{Jitter: least}
		if wait := b.Next(err); wait != 40*time.Second || ClassOf(err) != Waiting {
			t.Errorf("%d: waits %v, %v", code, wait, ClassOf(err))
		}
	}
}

// answerOf gives the error that Get makes of a status.
func answerOf(t *testing.T, code int, retryAfter string) error {
	t.Helper()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	})
	_, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{})
	return err
}

// The library names the URL with its query in errors and, at its default level,
// in logs; this package gives it no logger, and makes errors of its own.
func TestTrap_QueryStringsInErrorsAndLogs(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.Close()
	c := client(s)
	if logger := c.retrying().Logger; logger != nil {
		t.Errorf("the library logs to %T", logger)
	}
	_, err := originOf(t, s, "/m?signature=hush", OriginOptions{}).Get(t.Context(), Request{})
	fetched := c.Fetch(t.Context(), s.URL+"/m?signature=hush", &sink{}, 1, nil)
	for _, err := range []error{err, fetched} {
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "signature") {
				t.Errorf("%T holds the query: %v", err, err)
			}
		}
	}
}

// After its last attempt the library drops the response, status and all.
func TestTrap_LostResponseAfterTheLastFailure(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"type":"urn:example:busy","title":"busy"}`))
	})
	_, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{Limit: 1})
	fetched := client(s).Fetch(t.Context(), s.URL, &sink{}, 1, nil)
	var got, image *StatusError
	if !errors.As(err, &got) || !errors.As(fetched, &image) {
		t.Fatalf("Get = %v, Fetch = %v", err, fetched)
	}
	got.Date, got.Skew, image.Date, image.Skew = time.Time{}, 0, time.Time{}, 0
	want := &StatusError{Code: 503, RetryAfter: 3 * time.Second}
	if diff := cmp.Diff(want, image); diff != "" {
		t.Errorf("Fetch (-want +got):\n%s", diff)
	}
	want.Problem = Problem{Type: "urn:example:busy", Title: "busy"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Get (-want +got):\n%s", diff)
	}
}

// What the library tells by an error's text, a certificate that is not
// believed, is told by its type here, and ends the call at the first handshake.
func TestTrap_TLSVerificationErrorsAreRetried(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := newServerWith(t, ca.server("origin", nil), nil)
	r := newRelay(t, s.Listener.Addr().String())
	url := "https://" + r.Addr().String()
	o, err := NewOrigin(url, OriginOptions{RootCAs: newAuthority(t, "another").pool()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Get(t.Context(), Request{}); ClassOf(err) != Permanent || r.accepted.Load() != 1 {
		t.Errorf("Get = %v after %d handshakes", err, r.accepted.Load())
	}
	if err := client().Fetch(t.Context(), url, &sink{}, 1, nil); ClassOf(err) != Permanent || r.accepted.Load() != 2 {
		t.Errorf("Fetch = %v after %d handshakes", err, r.accepted.Load()-1)
	}
}

// An error's body that is not read to its end costs the connection.
func TestTrap_ErrorBodiesCostConnections(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, maxErrorBody - 1} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(make([]byte, size))
		})
		o := originOf(t, s, "", OriginOptions{})
		for range 3 {
			if _, err := o.Get(t.Context(), Request{}); !isStatus(500)(err) {
				t.Errorf("Get = %v", err)
			}
		}
		connections := map[string]bool{}
		for _, r := range s.seen() {
			connections[r.RemoteAddr] = true
		}
		if len(connections) != 1 {
			t.Errorf("errors of %d bytes: %d connections", size, len(connections))
		}
	}
}

// net/http follows a redirect from https to http, with the token.
func TestTrap_RedirectToPlainHTTPCarriesTheToken(t *testing.T) {
	t.Parallel()
	reached := false
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer plain.Close()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	o := originOf(t, s, "", OriginOptions{InsecureHTTP: true, Files: tokenFile(t, "hush")})
	if _, err := o.Get(t.Context(), Request{}); !isRedirect(err) || reached {
		t.Errorf("Get = %v, reached %v", err, reached)
	}
}
