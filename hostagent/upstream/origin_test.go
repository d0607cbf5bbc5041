package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hour is the clock of the origins under test.
var hour = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// originOf gives a client of s that believes it.
func originOf(t *testing.T, s *server, path string, o OriginOptions) *Origin {
	t.Helper()
	if o.Files.CA == "" {
		o.RootCAs = pool(s)
	}
	if o.Now == nil {
		o.Now = func() time.Time { return hour }
	}
	origin, err := NewOrigin(s.URL+path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(origin) })
	return origin
}

func TestNewOriginChecksItsURL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url  string
		o    OriginOptions
		want error
	}{
		{"https://origin.example/hosts/a?signature=hush#part", OriginOptions{}, nil},
		{"https://[2001:db8::1]:8443", OriginOptions{}, nil},
		{"http://origin.example/", OriginOptions{InsecureHTTP: true}, nil},
		{"http://origin.example/?signature=hush", OriginOptions{}, ErrInsecure},
		{"https://user:hush@origin.example/", OriginOptions{}, ErrUserinfo},
		{"https://hush@origin.example/", OriginOptions{}, ErrUserinfo},
		{"https://größe.example/", OriginOptions{}, ErrHostName},
		{"ftp://origin.example/", OriginOptions{InsecureHTTP: true}, ErrScheme},
		{"https:///hush", OriginOptions{}, ErrScheme},
		{"https://:443/", OriginOptions{}, ErrScheme},
		{"https://origin.example/%zz?signature=hush", OriginOptions{}, ErrScheme},
		{"", OriginOptions{}, ErrScheme},
		{"https://origin.example/", OriginOptions{Files: Files{Cert: "/cert"}}, ErrHalfPair},
		{"https://origin.example/", OriginOptions{Files: Files{Key: "/key"}}, ErrHalfPair},
	}
	for _, tt := range tests {
		o, err := NewOrigin(tt.url, tt.o)
		if !errors.Is(err, tt.want) || (o == nil) == (err == nil) {
			t.Errorf("%s: %v", tt.url, err)
		}
		if err != nil && (strings.Contains(err.Error(), "user:") || strings.Contains(err.Error(), "=hush") || strings.Contains(err.Error(), "hush@")) {
			t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `W/"x"`)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Preference-Applied", `respond-async, Wait=50`)
		w.Header().Set("Date", hour.Add(-time.Minute).Format(http.TimeFormat))
		w.Header().Set("Age", "20")
		if r.Header.Get("If-None-Match") == `W/"x"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Write([]byte("{}"))
	})
	o := originOf(t, s, "/hosts/a?signature=hush", OriginOptions{UserAgent: "test"})
	full := Answer{
		Status: 200, Body: []byte("{}"), ETag: `W/"x"`, ContentType: "application/json", Waited: true,
		Date: hour.Add(-40 * time.Second), Skew: 40 * time.Second,
	}
	same := full
	same.Status, same.Body, same.ContentType = 304, nil, ""
	for _, tt := range []struct {
		r    Request
		want Answer
	}{
		{Request{Limit: 2, Wait: 50500 * time.Millisecond}, full},
		{Request{Limit: 2, ETag: `W/"x"`}, same},
		{Request{Limit: 2, ETag: `"x"`}, full},
		{Request{Limit: 2, ETag: "W/\"x\"\r\nX: y"}, full},
		{Request{Limit: 2, ETag: strings.Repeat("x", maxETag+1)}, full},
	} {
		got, err := o.Get(t.Context(), tt.r)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", tt.r.ETag, err, diff)
		}
	}
	first := s.seen()[0]
	got := []string{first.Header.Get("Prefer"), first.Header.Get("Accept-Encoding"), first.Header.Get("User-Agent"), first.URL.RawQuery, first.Header.Get("If-None-Match")}
	if diff := cmp.Diff([]string{"wait=50", "gzip", "test", "signature=hush", ""}, got); diff != "" {
		t.Errorf("first request (-want +got):\n%s", diff)
	}
	if second := s.seen()[1].Header; second.Get("Prefer") != "" {
		t.Errorf("Prefer = %q without a wish to wait", second.Get("Prefer"))
	}
}

// Case 137: what a proxy made of an entity tag goes back as it came.
func TestCase137_EntityTagsAreOpaque(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{`"x"`, `W/"x"`, `"x-gzip"`, `W/"x;gz"`, "unquoted", `"größe"`, `""`} {
		s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header()["ETag"] = []string{tag}
			if got := r.Header.Get("If-None-Match"); got != "" {
				w.WriteHeader(http.StatusNotModified)
			}
		})
		o := originOf(t, s, "", OriginOptions{})
		first, err := o.Get(t.Context(), Request{Limit: 1})
		if err != nil || first.ETag != tag {
			t.Errorf("%s: %q, %v", tag, first.ETag, err)
		}
		if second, err := o.Get(t.Context(), Request{ETag: first.ETag}); err != nil || second.Status != 304 || second.ETag != tag {
			t.Errorf("%s: %+v, %v", tag, second, err)
		}
		if got := s.seen()[1].Header.Get("If-None-Match"); got != tag {
			t.Errorf("%s came back as %s", tag, got)
		}
	}
}

// Case 135: an unconditional request has no use for 304.
func TestCase135_NotModifiedUnasked(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	if _, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{}); !isStatus(304)(err) {
		t.Errorf("Get = %v", err)
	}
}

// Case 134: what a portal or a proxy sends in the manifest's place comes back
// with its type or as an error, never followed elsewhere.
func TestCase134_APortalIsNoAnswer(t *testing.T) {
	t.Parallel()
	page := []byte("<html>log in")
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "https://portal.example/login?back=hush", http.StatusFound)
			return
		case "/511":
			w.WriteHeader(http.StatusNetworkAuthenticationRequired)
		}
		w.Write(page)
	})
	if a, err := originOf(t, s, "/page", OriginOptions{}).Get(t.Context(), Request{Limit: 100}); err != nil || a.ContentType != "text/html" || !bytes.Equal(a.Body, page) {
		t.Errorf("Get = %+v, %v", a, err)
	}
	if _, err := originOf(t, s, "/511", OriginOptions{}).Get(t.Context(), Request{Limit: 100}); !isStatus(511)(err) {
		t.Errorf("Get = %v", err)
	}
	_, err := originOf(t, s, "/redirect", OriginOptions{}).Get(t.Context(), Request{Limit: 100})
	if !isRedirect(err) || strings.Contains(err.Error(), "hush") {
		t.Errorf("Get = %v", err)
	}
}

// zipped gives data compressed.
func zipped(t *testing.T, data io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.Copy(z, data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What is not whole, or in another form than asked for, is an error.
func TestGetBodies(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat("egress", 100))
	small := zipped(t, bytes.NewReader(body))
	empty := zipped(t, bytes.NewReader(nil))
	head := func(coding string, length int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n", coding, length)
	}
	whole := func(coding string, data []byte) string { return head(coding, len(data)) + string(data) }
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, raw string
		want      error // nil: the body
	}{
		{"plain", whole("identity", body), nil},
		{"gzip", whole("gzip", small), nil},
		{"gzip by its old name", whole("X-GZip", small), nil},
		{"gzip in members", whole("gzip", append(zipped(t, bytes.NewReader(body[:100])), zipped(t, bytes.NewReader(body[100:]))...)), nil},
		{"without an announced length", "HTTP/1.1 200 OK\r\n\r\n" + string(body), nil},
		{"chunked", chunked + "258\r\n" + string(body) + "\r\n0\r\n\r\n", nil},
		{"one byte more than allowed", whole("identity", append([]byte("x"), body...)), ErrTooLarge},
		{"one byte more in chunks", chunked + "259\r\nx" + string(body) + "\r\n0\r\n\r\n", ErrTooLarge},
		{"one byte more in gzip", whole("gzip", zipped(t, io.MultiReader(strings.NewReader("x"), bytes.NewReader(body)))), ErrTooLarge},
		{"empty members for ever", whole("gzip", bytes.Repeat(empty, 1000)), ErrTooLarge},
		{"short", head("identity", len(body)) + "half", io.ErrUnexpectedEOF},
		{"chunk cut", chunked + "258\r\nhalf", io.ErrUnexpectedEOF},
		{"last chunk missing", chunked + "258\r\n" + string(body) + "\r\n", io.ErrUnexpectedEOF},
		{"gzip cut", whole("gzip", small[:len(small)-9]), io.ErrUnexpectedEOF},
		{"gzip without its end", whole("gzip", small[:len(small)-8]), io.ErrUnexpectedEOF},
		{"gzip without anything", head("gzip", 0), io.ErrUnexpectedEOF},
		{"gzip that is none", whole("gzip", body), gzip.ErrHeader},
		{"gzip with something behind it", whole("gzip", append(bytes.Clone(small), "behind it there is more"...)), gzip.ErrHeader},
		{"gzip with another sum", whole("gzip", append(bytes.Clone(small[:len(small)-8]), "12345678"...)), gzip.ErrChecksum},
		{"gzip twice", whole("gzip, gzip", small), ErrEncoded},
		{"brotli", whole("br", body), ErrEncoded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { cut(t, w, tt.raw) })
			a, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{Limit: int64(len(body))})
			if tt.want == nil && (err != nil || !bytes.Equal(a.Body, body)) || !errors.Is(err, tt.want) {
				t.Errorf("Get = %d bytes, %v", len(a.Body), err)
			}
			if err != nil && (a.Status != 0 || len(s.seen()) != 1) {
				t.Errorf("an answer beside the error, or %d requests: %+v", len(s.seen()), a)
			}
		})
	}
}

// The answer to a failed attempt is not asked for again by the client itself.
func TestOneAttemptACall(t *testing.T) {
	t.Parallel()
	for _, code := range []int{204, 206, 400, 401, 403, 404, 408, 410, 429, 500, 502, 503} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		_, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{Limit: 1})
		if !isStatus(code)(err) || len(s.seen()) != 1 {
			t.Errorf("%d: %v after %d requests", code, err, len(s.seen()))
		}
	}
}

// Renewed tells of a file that has changed since the last attempt, until the next.
func TestRenewed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	o, err := NewOrigin("https://origin.example/", OriginOptions{Files: Files{Token: path}})
	if err != nil {
		t.Fatal(err)
	}
	attempt := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // what the server would say is of no interest
		if _, err := o.Get(ctx, Request{}); err == nil {
			t.Error("Get succeeded without a server")
		}
	}
	renewed := func(when string, want bool) {
		t.Helper()
		if got := o.Renewed(); got != want {
			t.Errorf("%s: Renewed = %v", when, got)
		}
	}
	attempt()
	renewed("nothing there", false)
	put(t, path, []byte("hush"))
	o.Check() // somebody else looks, and takes nothing from the loop
	renewed("it has come", true)
	renewed("and is asked for again", true)
	attempt()
	renewed("it was used", false)
}

// TestI12_CredentialsPrintAsNothing: however it is printed.
func TestI12_CredentialsPrintAsNothing(t *testing.T) {
	t.Parallel()
	f := Files{Token: put(t, filepath.Join(t.TempDir(), "token"), []byte("hush-token"))}
	o, err := NewOrigin("https://origin.example/m?signature=hush-query", OriginOptions{Files: f})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := o.keys.current()
	if err != nil || keys.token.reveal() != "hush-token" {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(strings.Repeat(verb, 5), o, keys.token, keys, []any{keys.token}, o.Check()); strings.Contains(text, "hush") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

// closeIdle closes what an Origin has open and not in use.
func closeIdle(o *Origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.base != nil {
		o.base.CloseIdleConnections()
	}
}
