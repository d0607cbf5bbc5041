package upstream

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Case 140 and invariant 12: a mirror may send elsewhere; nothing that
// identifies us, and no signature of the first URL, goes there.
func TestI12_Case140RedirectCarriesNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 303, 307, 308} {
		mirror := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.Write(object) })
		first := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "hush"})
			http.Redirect(w, r, mirror.URL+"/elsewhere", code)
		})
		url := strings.Replace(first.URL, "https://", "https://user:hush@", 1) + "/image?signature=hush"
		if err := client(first, mirror).Fetch(t.Context(), url, &sink{}, 1<<20, nil); err != nil {
			t.Fatal(err)
		}
		r := mirror.seen()[0]
		for _, h := range []string{"Authorization", "Cookie", "Referer"} {
			if v := r.Header.Get(h); v != "" {
				t.Errorf("%d: %s = %q at the second host", code, h, v)
			}
		}
		if len(r.TLS.PeerCertificates) != 0 {
			t.Errorf("%d: a client certificate at the second host", code)
		}
	}
}

func TestI12_RedirectToPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	var reached bool
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer plain.Close()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/?signature=hush", http.StatusFound)
	})
	err := client(s).Fetch(t.Context(), s.URL, &sink{}, 1<<20, nil)
	if !isRedirect(err) || strings.Contains(err.Error(), "hush") {
		t.Errorf("Fetch = %v", err)
	}
	if reached || len(s.seen()) != 1 {
		t.Errorf("plain http reached: %v; %d requests", reached, len(s.seen()))
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/again", http.StatusFound)
	})
	if err := client(s).Fetch(t.Context(), s.URL, &sink{}, 1<<20, nil); !isRedirect(err) {
		t.Errorf("Fetch = %v", err)
	}
	if got := len(s.seen()); got != 1+maxRedirects {
		t.Errorf("%d requests, want %d", got, 1+maxRedirects)
	}
}

func TestUnknownCertificateIsFinal(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.Write(object) })
	c := client()
	err := c.Fetch(t.Context(), s.URL, &sink{}, 1<<20, nil)
	var cert *tls.CertificateVerificationError
	if !errors.As(err, &cert) {
		t.Errorf("Fetch = %v", err)
	}
	if retry, _ := checkRetry(t.Context(), nil, err); retry {
		t.Error("an unknown certificate is retried")
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	s := &server{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(object) }))}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.StartTLS()
	defer s.Close()
	c := New(Options{RootCAs: pool(s), Retries: -1})
	if err := c.Fetch(t.Context(), s.URL, &sink{}, 1<<20, nil); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	most := func(n time.Duration) time.Duration { return n - 1 }
	least := func(time.Duration) time.Duration { return 0 }
	answer := func(code int, after string) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {after}}}
	}
	tests := []struct {
		name    string
		attempt int
		resp    *http.Response
		jitter  func(time.Duration) time.Duration
		want    time.Duration
	}{
		{"first", 0, nil, most, time.Second},
		{"third", 2, nil, most, 4 * time.Second},
		{"full jitter", 2, nil, least, 0},
		{"capped", 10, nil, most, time.Minute},
		{"no overflow", 1000, nil, most, time.Minute},
		{"asked for", 0, answer(503, "7"), least, 7 * time.Second},
		{"asked for by date", 0, answer(429, now.Add(9*time.Second).Format(http.TimeFormat)), least, 9 * time.Second},
		{"in the past", 0, answer(503, now.Add(-time.Hour).Format(http.TimeFormat)), least, 0},
		{"asked for too much", 0, answer(503, "3600"), least, time.Minute},
		{"beyond int64", 0, answer(503, "9223372036854775807"), least, time.Minute},
		{"nonsense", 0, answer(503, "soon"), most, time.Second},
		{"negative", 0, answer(503, "-5"), most, time.Second},
	}
	for _, tt := range tests {
		c := New(Options{Now: func() time.Time { return now }, Jitter: tt.jitter})
		if got := c.backoff(time.Second, time.Minute, tt.attempt, tt.resp); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
