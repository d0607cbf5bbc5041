package upstream

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var object = bytes.Repeat([]byte("egress"), 10_000)

func TestFetch(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) { w.Write(object) })
	var out bytes.Buffer
	var calls int
	err := client(s).Fetch(t.Context(), s.URL, &out, int64(len(object)), func(done, total int64) {
		calls++
		if done <= 0 || done > int64(len(object)) {
			t.Errorf("progress %d of %d", done, total)
		}
	})
	if err != nil || !bytes.Equal(out.Bytes(), object) {
		t.Errorf("Fetch = %v, %d bytes", err, out.Len())
	}
	if calls == 0 {
		t.Error("no progress was reported")
	}
	r := s.seen()[0]
	if got := r.Header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("Accept-Encoding = %q", got)
	}
}

// Each handler misbehaves in one way; requests is how many the server sees.
func TestFetchFailures(t *testing.T) {
	t.Parallel()
	status := func(code int) func(*testing.T, http.ResponseWriter) {
		return func(_ *testing.T, w http.ResponseWriter) { w.WriteHeader(code) }
	}
	raw := func(s string) func(*testing.T, http.ResponseWriter) {
		return func(t *testing.T, w http.ResponseWriter) { cut(t, w, s) }
	}
	tests := []struct {
		name     string
		answer   func(*testing.T, http.ResponseWriter)
		requests int
		want     func(error) bool
	}{
		{"404 is final", status(404), 1, isStatus(404)},
		{"403 is final", status(403), 1, isStatus(403)},
		{"206 is no answer", status(206), 1, isStatus(206)},
		{"501 is final", status(501), 1, isStatus(501)},
		{"500 is retried", status(500), 4, isStatus(500)},
		{"429 is retried", status(429), 4, isStatus(429)},
		{"gzip", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(object)
		}, 1, is(ErrEncoded)},
		{"announced too large", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100001")
			w.Write(make([]byte, 100_001))
		}, 1, is(ErrTooLarge)},
		{"too large, not announced", func(_ *testing.T, w http.ResponseWriter) {
			for range 11 {
				w.Write(make([]byte, 10_000))
				http.NewResponseController(w).Flush()
			}
		}, 1, is(ErrTooLarge)},
		{"truncated", raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), 4, is(io.ErrUnexpectedEOF)},
		{"truncated chunk", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf"), 4, is(io.ErrUnexpectedEOF)},
		{"connection closed", raw(""), 4, is(io.EOF)},
		{"unreadable redirect", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Location", "https://mirror.example/%zz?signature=hush")
			w.WriteHeader(302)
		}, 1, isRedirect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { tt.answer(t, w) })
			err := client(s).Fetch(t.Context(), s.URL+"/image?signature=hush", &sink{}, 100_000, nil)
			if err == nil || !tt.want(err) {
				t.Errorf("Fetch = %v", err)
			}
			if got := len(s.seen()); got != tt.requests {
				t.Errorf("%d requests, want %d", got, tt.requests)
			}
			if strings.Contains(fmt.Sprint(err), "hush") {
				t.Errorf("the error holds the query: %v", err)
			}
		})
	}
}

// TestCase073_CodingsAreAList: identity is none, in any case; every other one is
// refused at once, wherever it stands.
func TestCase073_CodingsAreAList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines []string
		ok    bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"identity"}, true},
		{[]string{"Identity", " identity , identity"}, true},
		{[]string{"gzip"}, false},
		{[]string{"identity", "gzip"}, false},
		{[]string{"identity, br"}, false},
		{[]string{"zstd, identity"}, false},
	} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Encoding"] = tt.lines
			w.Write(object)
		})
		var out sink
		err := client(s).Fetch(t.Context(), s.URL, &out, int64(len(object)), nil)
		if tt.ok && err != nil || !tt.ok && (!errors.Is(err, ErrEncoded) || out.Len() != 0) {
			t.Errorf("%q: %v, %d bytes", tt.lines, err, out.Len())
		}
		if got := len(s.seen()); got != 1 {
			t.Errorf("%q: %d requests", tt.lines, got)
		}
	}
}

// A body that is announced as too large is not even begun.
func TestFetchAnnouncedTooLarge(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		w.Write(object)
	})
	var out sink
	if err := client(s).Fetch(t.Context(), s.URL, &out, int64(len(object))-1, nil); !errors.Is(err, ErrTooLarge) || out.Len() != 0 {
		t.Errorf("Fetch = %v, %d bytes", err, out.Len())
	}
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func isStatus(code int) func(error) bool {
	return func(err error) bool {
		var s *StatusError
		return errors.As(err, &s) && s.Code == code
	}
}

func isRedirect(err error) bool {
	var r *RedirectError
	return errors.As(err, &r)
}

// Case 72: what broke off is fetched again from its start, and only then.
func TestCase072BrokenBodyStartsAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			cut(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", n*1000))
			return
		}
		w.Write(object)
	})
	var out sink
	if err := client(s).Fetch(t.Context(), s.URL, &out, 1<<20, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), object) || out.restarts != 2 {
		t.Errorf("%d bytes after %d restarts", out.Len(), out.restarts)
	}
}

func TestFetchWithoutRestart(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		cut(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	})
	var out bytes.Buffer
	if err := client(s).Fetch(t.Context(), s.URL, &out, 1<<20, nil); err == nil {
		t.Error("a broken body without a way to start again was accepted")
	}
	if out.String() != "half" {
		t.Errorf("written %q", out.String())
	}
}

func TestFetchWriterErrorIsFinal(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.Write(object) })
	err := client(s).Fetch(t.Context(), s.URL, &sink{fail: errTest}, 1<<20, nil)
	if !errors.Is(err, errTest) || len(s.seen()) != 1 {
		t.Errorf("Fetch = %v after %d requests", err, len(s.seen()))
	}
}

// Case 138, with the wait's bound far below what the server asks for.
func TestCase138RetryAfterIsCapped(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"3600", "99999999999999999", "Thu, 31 Dec 2099 23:59:59 GMT"} {
		s := newServer(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Write(object)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := client(s).Fetch(ctx, s.URL, &sink{}, 1<<20, nil); err != nil {
			t.Errorf("Retry-After %s: %v", after, err)
		}
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		cancel(errTest)
	})
	c := client(s)
	c.opt.BackoffMin, c.opt.BackoffMax = time.Hour, time.Hour
	c.opt.Jitter = func(n time.Duration) time.Duration { return n - 1 }
	if err := c.Fetch(ctx, s.URL, &sink{}, 1<<20, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, errTest) {
		t.Errorf("Fetch = %v", err)
	}
}

// A server that stops is given up at every stage, and asked again.
func TestI15_StalledServerIsGivenUp(t *testing.T) {
	t.Parallel()
	hang := func(r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		{"before the header", func(_ http.ResponseWriter, r *http.Request) { hang(r) }},
		{"within the body", func(w http.ResponseWriter, r *http.Request) {
			w.Write(object[:5000])
			http.NewResponseController(w).Flush()
			hang(r)
		}},
		{"within an error's body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			http.NewResponseController(w).Flush()
			hang(r)
		}},
		{"drop by drop", func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				w.Write([]byte("x"))
				http.NewResponseController(w).Flush()
				<-tick.C
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					tt.answer(w, r)
					return
				}
				w.Write(object)
			})
			c := New(Options{RootCAs: pool(s), Retries: 1, BackoffMin: 1, BackoffMax: 1, Stall: 2 * time.Second})
			var out sink
			if err := c.Fetch(t.Context(), s.URL, &out, 1<<20, nil); err != nil || !bytes.Equal(out.Bytes(), object) {
				t.Errorf("Fetch = %v, %d bytes", err, out.Len())
			}
			if got := len(s.seen()); got != 2 {
				t.Errorf("%d requests, want 2", got)
			}
		})
	}
}

// roundTrip is a transport that is one function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lateBody ends when its request is cancelled.
type lateBody struct{ ctx context.Context }

func (b lateBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, io.EOF }
func (b lateBody) Close() error             { return nil }

// A handler that returns because its client went away ends the answer in good
// order, and that end can arrive before the connection is closed.
func TestI15_AnEndBroughtAboutByTheStallIsNoEnd(t *testing.T) {
	t.Parallel()
	answer := func(body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1}
	}
	tests := map[string]roundTrip{
		"header": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return answer(http.NoBody), nil
		},
		"body": func(r *http.Request) (*http.Response, error) {
			return answer(lateBody{r.Context()}), nil
		},
	}
	for name, base := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Options{Retries: -1, Stall: 10 * time.Millisecond})
			c.rt.(*stallTransport).base = base
			err := c.Fetch(t.Context(), "https://mirror.example/x", &sink{}, 1<<20, nil)
			if !errors.Is(err, ErrStalled) {
				t.Errorf("Fetch = %v, want ErrStalled", err)
			}
		})
	}
}

func TestFetchStalledError(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := New(Options{RootCAs: pool(s), Retries: -1, Stall: 100 * time.Millisecond})
	if err := c.Fetch(t.Context(), s.URL, &sink{}, 1<<20, nil); !errors.Is(err, ErrStalled) {
		t.Errorf("Fetch = %v, want ErrStalled", err)
	}
}

func pool(s *server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

func TestFetchRefusesURL(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "http://mirror.example/a", "file:///etc/passwd", "https:///a", "https://[", "mirror.example/a"} {
		if err := client().Fetch(t.Context(), u, &sink{}, 1, nil); !errors.Is(err, ErrScheme) {
			t.Errorf("Fetch(%q) = %v, want ErrScheme", u, err)
		}
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var got []int64
	p := Throttle(func() time.Time { return now }, func(done, _ int64) { got = append(got, done) })
	for i := range int64(11) {
		p(i, 100)
		now = now.Add(200 * time.Millisecond)
	}
	if diff := cmp.Diff([]int64{0, 3, 6, 9}, got); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
}
