//go:build web

package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// bad is a fault with what status has to say of it.
type bad struct {
	what  string
	fault Fault
	says  []string
}

// survives lets agents with two proxies meet the faults, each a few of them.
// While one lasts the last good manifest stands and status has the reason; when
// it is over the agent recovers, and an edit counts.
func survives(t *testing.T, faults ...bad) {
	t.Parallel()
	for few := range slices.Chunk(faults, 3) {
		t.Run(few[0].what, func(t *testing.T) { survivesFew(t, few) })
	}
}

func survivesFew(t *testing.T, faults []bad) {
	l := startLane(t, setting{faults: true})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	for _, f := range faults {
		l.proxy.Set(f.fault)
		began := time.Now()
		said := l.trouble(f.what, f.says...)
		l.Logf("%s, after %s: %s", f.what, time.Since(began).Round(100*time.Millisecond), said)
		if len(said) > 4000 || strings.ContainsAny(said, "\x1b\x00") {
			l.Errorf("%s: the reason is not fit for a terminal: %q", f.what, said)
		}
		l.unchanged(f.what, was)
		l.proxy.Set(Fault{})
		l.healed(f.what)
		l.unchanged("after "+f.what, was)
	}
	l.publish(plains("a", "b", "c")...)
	was["c"] = l.runs("a", "b", "c")["c"]
	l.unchanged("all over", was)
}

func typed(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

const (
	jsonType = "application/json"
	page     = "<!doctype html><title>Log in</title><p>Welcome to \x1b[31mour\x00 hotel</p>"
)

// TestI02_Case133_NoDocument: what is empty, or no document, deletes nothing.
func TestI02_Case133_NoDocument(t *testing.T) {
	survives(t,
		bad{"nothing", Answer(200, typed(jsonType), ""), []string{"json"}},
		bad{"blanks", Answer(200, typed(jsonType), " \n "), []string{"json"}},
		bad{"a byte order mark", Answer(200, typed(jsonType), "\ufeff"), []string{"json"}},
		bad{"a comment", Answer(200, typed(jsonType), "// no proxies today\n"), []string{"// no proxies"}},
		bad{"null", Answer(200, typed(jsonType), "null"), []string{"object"}},
	)
}

// TestI02_Case130_SuddenlyEmpty: forms of "nothing is wanted" that nobody meant.
func TestI02_Case130_SuddenlyEmpty(t *testing.T) {
	change := func(edit func(map[string]any)) Fault {
		return Body(func(text string) string {
			var o map[string]any
			if json.Unmarshal([]byte(text), &o) != nil {
				return text
			}
			o["revision"] = o["revision"].(float64) + 1
			edit(o)
			out, _ := json.Marshal(o)
			return string(out)
		})
	}
	survives(t,
		bad{"an empty object", Answer(200, typed(jsonType), "{}"), []string{"proxies", "missing"}},
		bad{"no list", change(func(o map[string]any) { delete(o, "proxies") }), []string{"proxies", "missing"}},
		bad{"another name for it", change(func(o map[string]any) { o["specs"] = []any{}; delete(o, "proxies") }), []string{"specs"}},
		bad{"an empty list", change(func(o map[string]any) { o["proxies"] = []any{} }), []string{"allow_empty"}},
		bad{"a null list", change(func(o map[string]any) { o["proxies"] = nil }), []string{"proxies"}},
	)
}

// TestI02_Case134_Portal: a page that answers in the server's place.
func TestI02_Case134_Portal(t *testing.T) {
	tagged := typed("text/html; charset=utf-8")
	tagged.Set("ETag", `"portal"`)
	survives(t,
		bad{"a page", Answer(200, tagged, page), []string{"text/html", "<!doctype html>"}},
		bad{"a page that is called JSON", Answer(200, typed(jsonType), page), []string{"<!doctype html>"}},
		bad{"no type", Answer(200, http.Header{"Content-Type": nil}, "{}"), []string{"content type"}},
		bad{"511", Answer(511, typed("text/html"), page), []string{"511"}},
		bad{"a portal elsewhere", Redirect(302, "http://portal.example/login?canary-query"), []string{"portal.example"}},
	)
}

// TestI02_Documents: documents that are wrong as a whole.
func TestI02_Documents(t *testing.T) {
	put := func(old, text string) Fault {
		return Body(func(body string) string { return strings.Replace(body, old, text, 1) })
	}
	survives(t,
		bad{"another version", put(`"version":1`, `"version":2`), []string{"version", "2"}},
		bad{"an unknown key", put(`"version"`, `"colour":"red","version"`), []string{"colour"}},
		bad{"a key in another case", put(`"host"`, `"Host"`), []string{"Host"}},
		bad{"a key twice", put(`"version":1`, `"version":1,"version":1`), []string{"version"}},
		bad{"something behind it", Body(func(s string) string { return s + "{}" }), []string{"after"}},
		bad{"a half", Half(), []string{"json"}},
	)
}

// TestI02_Statuses: no status of a server deletes anything.
func TestI02_Statuses(t *testing.T) {
	var faults []bad
	for code, what := range map[int]string{401: "401", 410: "410", 418: "418", 204: "204", 206: "206", 500: "500"} {
		faults = append(faults, bad{what, Answer(code, typed("text/plain"), ""), []string{what}})
	}
	survives(t, faults...)
}

// TestCase140_Redirects: nobody but the origin is shown anything.
func TestCase140_Redirects(t *testing.T) {
	elsewhere := newSite(t).newProxy(t)
	t.Cleanup(func() {
		if asked := elsewhere.Asked(time.Time{}); len(asked) > 0 {
			t.Errorf("it was followed: %v", asked)
		}
	})
	survives(t,
		bad{"another port", Redirect(307, elsewhere.URL+"/manifests/kvm1.json"), []string{"redirect"}},
		bad{"plain http", Redirect(301, strings.Replace(elsewhere.URL, "https", "http", 1)), []string{"redirect"}},
		bad{"another host", Redirect(308, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)), []string{"redirect"}},
		bad{"in circles", Redirect(302, "/manifests/kvm1.json"), []string{"redirect"}},
	)
}

// TestI15_BodiesAreBounded: more than a manifest may have, packed or not, and
// what breaks off.
func TestI15_BodiesAreBounded(t *testing.T) {
	survives(t,
		bad{"17 MiB", Oversized(17<<20, false), []string{"larger"}},
		bad{"cut", Truncated(true), nil},
		bad{"cut, of no known length", Truncated(false), nil},
		bad{"reset", Reset(), nil},
	)
}

// TestCase144_Bomb: a gigabyte in one megabyte costs what a manifest may, in an
// agent with the race detector, which needs several times as much.
func TestCase144_Bomb(t *testing.T) {
	l := startLane(t, setting{faults: true})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	before, err := kit.Look(l.agent.PID())
	if err != nil {
		t.Fatal(err)
	}
	l.proxy.Set(Oversized(1<<30, true))
	l.trouble("a bomb", "larger")
	after, err := kit.Look(l.agent.PID())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before %s, after %s", before, after)
	if after.RSS > before.RSS+400<<20 {
		t.Errorf("memory grew from %s to %s", before, after)
	}
	l.unchanged("a bomb", was)
	l.proxy.Set(Fault{})
	l.healed("a bomb")
}

// TestI15_Silence: a server that is slow to death holds up nothing else, and
// one that is merely slow is waited for.
func TestI15_Silence(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]Fault{
		"black hole": BlackHole(), "silent": Silent(), "drip": Drip(time.Second),
	} {
		t.Run(what, func(t *testing.T) {
			l := startLane(t, setting{faults: true})
			l.publish(plains("a")...)
			was := l.runs("a")
			l.proxy.Set(fault)
			if err := l.agent.Write("local.toml", localSpec); err != nil {
				t.Fatal(err)
			}
			was["local"] = l.runs("a", "local")["local"]
			l.trouble(what)
			l.unchanged(what, was)
			l.proxy.Set(Slow(5, 200*time.Millisecond))
			l.publish(plains("a", "b")...)
			was["b"] = l.runs("a", "b", "local")["b"]
			l.unchanged("slow", was)
		})
	}
}

// TestCase138_RetryAfter: an hour's wait that a server asks for stops neither
// the directory nor the agent's end, and ends with a credential's change.
func TestCase138_RetryAfter(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]string{"seconds": "3600", "date": "Fri, 31 Dec 2099 23:59:59 GMT", "overflow": "99999999999999999999"} {
		t.Run(what, func(t *testing.T) {
			l := startLane(t, setting{faults: true})
			l.publish(plains("a")...)
			was := l.runs("a")
			l.proxy.Set(Answer(503, http.Header{"Retry-After": {after}}, ""))
			l.trouble("unavailable", "503")
			l.proxy.Set(Fault{})
			if err := l.agent.Write("local.toml", localSpec); err != nil {
				t.Fatal(err)
			}
			was["local"] = l.runs("a", "local")["local"]
			l.unchanged("unavailable", was)
			if h := l.wait("status", func(status.Host) bool { return true }); pulled(h).Synced {
				t.Error("it asked again at once")
			}
			l.show(l.host(t, host, time.Hour))
			l.within(rotation, "a new certificate", func() { l.healed("unavailable") })
		})
	}
}
