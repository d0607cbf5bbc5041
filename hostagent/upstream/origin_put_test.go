package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// upload is what a server saw of a Put.
type upload struct {
	Path, Method, Body, Key, Type, Coding string
	Length                                int64
	Chunked                               bool
}

func readUpload(t *testing.T, r *http.Request) upload {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return upload{
		r.URL.Path, r.Method, string(data), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"),
		r.Header.Get("Content-Encoding"), r.ContentLength, len(r.TransferEncoding) > 0,
	}
}

// Case 147: refused, cut off in the middle, sent elsewhere and then taken: each
// time the whole body goes, under the same key.
func TestCase147_TheBodyIsWholeEachTime(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("report"), 100_000)
	var got []upload
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			_, _ = io.CopyN(io.Discard, r.Body, int64(len(body)/2))
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.(interface{ NetConn() net.Conn }).NetConn().Close()
			return
		}
		got = append(got, readUpload(t, r))
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Date", hour.Format(http.TimeFormat))
			w.WriteHeader(http.StatusCreated)
		}
	})
	o := originOf(t, s, "/report", OriginOptions{Files: tokenFile(t, "token")})
	var a PutAnswer
	for range 3 {
		var err error
		if a, err = o.Put(t.Context(), "application/json", body, map[string]string{"Idempotency-Key": "k1"}); err == nil {
			break
		} else if ClassOf(err) != Transient {
			t.Errorf("Put = %v", err)
		}
	}
	want := upload{"/report", "PUT", string(body), "k1", "application/json", "", int64(len(body)), false}
	moved := want
	moved.Path = "/moved"
	if diff := cmp.Diff([]upload{want, want, moved}, got); diff != "" {
		t.Errorf("uploads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(PutAnswer{Status: 201, Date: hour}, a); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for i, r := range s.seen() {
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("request %d carried no token", i+1)
		}
	}
}

// A redirect that would make a GET of it is none that a report could follow.
func TestPutIsNeverTurnedIntoGet(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 303} {
		s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/moved", code) })
		_, err := originOf(t, s, "", OriginOptions{}).Put(t.Context(), "application/json", []byte("{}"), nil)
		if !isRedirect(err) || len(s.seen()) != 1 {
			t.Errorf("%d: %v after %d requests", code, err, len(s.seen()))
		}
	}
}

// Only what a server says in the form made for it counts as its reason.
func TestPutProblems(t *testing.T) {
	t.Parallel()
	const problem = `{"type":"urn:example:duplicate-host","title":"Two hosts","detail":"b is another\u0007 one","status":409,"since":1}`
	want := Problem{Type: "urn:example:duplicate-host", Title: "Two hosts", Detail: "b is another? one"}
	tests := []struct {
		name, kind, body string
		want             Problem
	}{
		{"problem", "application/problem+json", problem, want},
		{"with a parameter", "Application/Problem+JSON; charset=utf-8", problem, want},
		{"other JSON", "application/json", problem, Problem{}},
		{"a page", "text/html", "<html>409", Problem{}},
		{"nothing", "", "", Problem{}},
		{"not JSON", "application/problem+json", "<html>409", Problem{}},
		{"wrong types", "application/problem+json", `{"type":"x","title":7}`, Problem{}},
		{"too large", "application/problem+json", `{"type":"x","detail":"` + strings.Repeat("x", maxErrorBody) + `"}`, Problem{}},
	}
	for _, tt := range tests {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{tt.kind}
			w.WriteHeader(http.StatusConflict)
			w.Write([]byte(tt.body))
		})
		_, err := originOf(t, s, "", OriginOptions{}).Put(t.Context(), "application/json", []byte("{}"), nil)
		var status *StatusError
		if !errors.As(err, &status) || status.Code != 409 {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, status.Problem); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPutAnswers(t *testing.T) {
	t.Parallel()
	for code, ok := range map[int]bool{200: true, 201: true, 202: true, 204: true, 203: false, 206: false, 304: false, 413: false} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		a, err := originOf(t, s, "", OriginOptions{}).Put(t.Context(), "application/json", nil, nil)
		if ok && (err != nil || a.Status != code) || !ok && !isStatus(code)(err) {
			t.Errorf("%d: %+v, %v", code, a, err)
		}
	}
}

// A large body has more time, so that a slow line can carry it.
func TestPutHasTimeForItsBody(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		_, _ = io.Copy(io.Discard, r.Body)
		<-timer.C
	})
	o := originOf(t, s, "", OriginOptions{Stall: 600 * time.Millisecond})
	if _, err := o.Put(t.Context(), "application/json", make([]byte, slowest), nil); err != nil {
		t.Errorf("Put = %v", err)
	}
	if _, err := o.Put(t.Context(), "application/json", make([]byte, slowest-1), nil); !errors.Is(err, ErrStalled) {
		t.Errorf("Put = %v", err)
	}
}
