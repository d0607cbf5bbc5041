//go:build web

package web

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestCase137_EntityTags: tags that something on the way writes anew are sent
// back byte for byte, and a body that is there already changes nothing.
func TestCase137_EntityTags(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(string) string{
		"weak":         func(tag string) string { return "W/" + strings.TrimPrefix(tag, "W/") },
		"gzip":         func(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` },
		"never twice":  func(string) string { return `"` + time.Now().Format(time.RFC3339Nano) + `"` },
		"none":         func(string) string { return "" },
		"unreasonable": func(string) string { return strings.Repeat("x", 8000) },
	} {
		t.Run(what, func(t *testing.T) {
			l := startLane(t, setting{faults: true})
			l.publish(plains("a")...)
			was := l.runs("a")
			l.sendsBack(change, what != "unreasonable")
			l.healed(what)
			l.unchanged(what, was)
		})
	}
}

// sendsBack sees to it that the agent sends back what tags are changed into, if
// it should.
func (l *lane) sendsBack(change func(string) string, should bool) {
	l.Helper()
	var mu sync.Mutex
	given := []string{""}
	l.proxy.Set(ETag(func(tag string) string {
		mu.Lock()
		defer mu.Unlock()
		given = append(given, change(tag))
		return given[len(given)-1]
	}))
	from := time.Now()
	l.wait("three requests", func(status.Host) bool { return len(l.proxy.Asked(from)) >= 3 })
	l.proxy.Set(Fault{})
	mu.Lock()
	defer mu.Unlock()
	for i, a := range l.proxy.Asked(from)[1:3] {
		want := given[i+1]
		if !should {
			want = ""
		}
		if sent := a.Header.Get("If-None-Match"); sent != want {
			l.Errorf("sent back %q, was given %q", sent, want)
		}
	}
}

// TestCase135_NotModified: a server that says 304 to everything is told from one
// that has nothing new.
func TestCase135_NotModified(t *testing.T) {
	l := newLane(t, setting{faults: true})
	l.publish(plains("a")...)
	l.proxy.Set(Answer(http.StatusNotModified, http.Header{"Etag": {`"x"`}}, ""))
	l.start()
	l.trouble("304 and nothing cached", "304")
	l.runs()
	l.proxy.Set(Fault{})
	was := l.runs("a")
	l.healed("304")
	l.proxy.Set(Answer(http.StatusNotModified, nil, ""))
	from := time.Now()
	l.wait("two more requests", func(status.Host) bool { return len(l.proxy.Asked(from)) >= 2 })
	l.unchanged("304 always", was)
}

// TestLongPoll: a server that says that it waits is asked again at once, with a
// change that comes in the meantime; one that does not is not expected to.
func TestLongPoll(t *testing.T) {
	l := newLane(t, setting{faults: true})
	edited := make(chan struct{})
	l.proxy.Set(Fault{HTTP: func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Header.Get("Prefer") == "" {
			pass.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Preference-Applied", "wait")
		select {
		case <-edited:
		case <-time.After(4 * time.Second):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}})
	l.publish(plains("a")...)
	l.start()
	was := l.runs("a")
	from := time.Now()
	l.wait("requests that wait, and nothing else", func(status.Host) bool { return len(l.proxy.Asked(from)) >= 3 })
	for _, a := range l.proxy.Asked(from) {
		if a.Header.Get("Prefer") != "wait=5" {
			t.Errorf("%s did not wait: Prefer: %q", a, a.Header.Get("Prefer"))
		}
	}
	l.publish(plains("a", "b")...)
	close(edited)
	was["b"] = l.runs("a", "b")["b"]
	l.unchanged("a long poll", was)
}
