package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Fault is what a proxy does to those who come to it. One of its fields is set.
type Fault struct {
	// Conn takes each new connection, until it returns or ctx ends.
	Conn func(ctx context.Context, c net.Conn)
	// HTTP answers each request; pass gives the true answer.
	HTTP func(w http.ResponseWriter, r *http.Request, pass http.Handler)
}

// Reset resets connections as soon as their client says something.
func Reset() Fault {
	return Fault{Conn: func(_ context.Context, c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
	}}
}

// BlackHole takes connections and never says a word.
func BlackHole() Fault {
	return Fault{Conn: func(ctx context.Context, c net.Conn) {
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		defer stop()
		_, _ = io.Copy(io.Discard, c)
	}}
}

// Silent takes requests and never answers.
func Silent() Fault {
	return Fault{HTTP: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}}
}

// Slow gives the true answer's body in so many pieces, with a pause after each.
func Slow(pieces int, pause time.Duration) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		a := answer(r, pass)
		copyHeader(w, a)
		size := len(a.body)/pieces + 1
		for rest := a.body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = w.Write(rest[:min(size, len(rest))])
			_ = http.NewResponseController(w).Flush()
			if !sleep(r.Context(), pause) {
				return
			}
		}
	}}
}

// Drip starts an answer that never ends, one byte at a time.
func Drip(pause time.Duration) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		for sleep(r.Context(), pause) {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler) // a return would end it well
	}}
}

// Truncated breaks off in the middle of the true answer's body; of its length
// it tells the truth before, or nothing.
func Truncated(tellLength bool) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		a := answer(r, pass)
		if !tellLength {
			a.header.Del("Content-Length")
		}
		copyHeader(w, a)
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
}

// Half gives the first half of the true body, as if it were the whole.
func Half() Fault {
	return edited(func(a *trueAnswer) {
		a.body = a.body[:len(a.body)/2]
		a.header.Del("Content-Length")
	})
}

// Oversized gives an object with so many blanks in it, gzip'd or not.
func Oversized(size int64, packed bool) Fault {
	var body bytes.Buffer
	header, out := http.Header{"Content-Type": {"application/json"}}, io.WriteCloser(asItIs{&body})
	if packed {
		header.Set("Content-Encoding", "gzip")
		out = gzip.NewWriter(&body)
	}
	// A buffer takes everything.
	_, _ = io.Copy(out, io.MultiReader(strings.NewReader("{"), io.LimitReader(repeat(' '), size), strings.NewReader("}")))
	_ = out.Close()
	return Answer(http.StatusOK, header, body.String())
}

// asItIs is a writer that has nothing to finish.
type asItIs struct{ io.Writer }

// Close implements io.Closer.
func (asItIs) Close() error { return nil }

// Answer answers every request alike.
func Answer(code int, header http.Header, body string) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for key, values := range header {
			w.Header()[key] = values
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}}
}

// Redirect sends everybody elsewhere.
func Redirect(code int, to string) Fault {
	return Answer(code, http.Header{"Location": {to}}, "")
}

// ETag changes the entity tag of the true answer, as caches and compressing
// proxies do, and never finds one to match.
func ETag(change func(string) string) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		a := answer(r, pass)
		if tag := change(a.header.Get("ETag")); tag != "" {
			a.header.Set("ETag", tag)
		} else {
			a.header.Del("ETag")
		}
		copyHeader(w, a)
		_, _ = w.Write(a.body)
	}}
}

// Body changes the true body.
func Body(change func(string) string) Fault {
	return edited(func(a *trueAnswer) {
		a.body = []byte(change(string(a.body)))
		a.header.Del("Content-Length")
	})
}

// edited changes the true answer, which is not packed then.
func edited(change func(*trueAnswer)) Fault {
	return Fault{HTTP: func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		r.Header.Del("Accept-Encoding")
		a := answer(r, pass)
		change(&a)
		copyHeader(w, a)
		_, _ = w.Write(a.body)
	}}
}

// trueAnswer is what the server behind the proxy answered.
type trueAnswer struct {
	code   int
	header http.Header
	body   []byte
}

// answer gets the whole true answer, whatever the client has already.
func answer(r *http.Request, pass http.Handler) trueAnswer {
	r.Header.Del("If-None-Match")
	rec := httptest.NewRecorder()
	pass.ServeHTTP(rec, r)
	a := trueAnswer{code: rec.Code, header: rec.Header(), body: rec.Body.Bytes()}
	a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
	return a
}

func copyHeader(w http.ResponseWriter, a trueAnswer) {
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.code)
}

// sleep tells whether d went by before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// repeat is a reader of one byte, for ever.
type repeat byte

// Read implements io.Reader.
func (b repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// String is for a test's log.
func (a Asked) String() string {
	return fmt.Sprintf("%s %s If-None-Match=%q", a.When.Format("15:04:05.000"), a.Path, a.Header.Get("If-None-Match"))
}
