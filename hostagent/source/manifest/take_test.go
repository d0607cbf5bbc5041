package manifest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

func TestTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("at first", "", NotFetched)
	w.must(file(text(3, "a", "b"), `"1"`))
	w.want("taken", "a b", "")
	w.must(file(text(3, "a", "b"), `"1"`))
	w.want("not modified", "a b", "")
	w.must(file(text(4, "b", "c"), `"2"`))
	w.want("another", "b c", "")
	snap, st := w.s.Snapshot(), w.s.Status()
	if snap.Seq != 3 || !snap.Read.Equal(w.now) {
		t.Errorf("%+v", snap)
	}
	if st.Revision != 4 || st.Digest != digestOf([]byte(text(4, "b", "c"))) || !st.FetchedAt.Equal(w.now) || st.FromCache || st.Proxies != 2 || !st.CheckedAt.Equal(w.now) {
		t.Errorf("%+v", st)
	}
	w.secret()
}

func TestI02_Case130_AnEmptyManifestDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a", "b", "c", "d", "e"), `"1"`))
	empty := strings.Replace(text(2), `"allow_empty": true, `, "", 1)
	for body, reason := range map[string]Reason{
		`{"specs": []}`: Invalid, "": Malformed, "null": Malformed, "{}": Invalid, `{"proxies": []}`: Invalid, empty: EmptyRefused,
		strings.Replace(empty, `"proxies": []`, `"proxies": null`, 1): Invalid, strings.Replace(empty, `"proxies": []`, `"specs": []`, 1): Invalid,
	} {
		w.refused(body, file(body, `"2"`), reason)
	}
	w.must(file(text(2), `"2"`))
	w.want("with the word that it is meant", "", "")
}

func TestI02_Case133_NothingIsNoManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a", "b"), `"1"`))
	for _, body := range []string{"", " \r\n\t ", "// empty", "/* empty */", "# empty", "\ufeff", "\ufeff" + text(2, "a"), text(2, "a")[:60]} {
		w.refused(fmt.Sprintf("%q", body), file(body, `"2"`), Malformed)
	}
}

func TestI02_Case134_APortalsPageIsNoManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a"), `"1"`))
	page := "<html><h1>Log in</h1>" + strings.Repeat(".", 5000) + canary
	typed := func(contentType, body string) func(context.Context, upstream.Request) (upstream.Answer, error) {
		a := good(body, `"portal"`)
		a.ContentType = contentType
		return func(context.Context, upstream.Request) (upstream.Answer, error) { return a, nil }
	}
	w.refused("a page", typed("text/html; charset=utf-8", page), WrongType)
	if got := w.s.Snapshot().Problem; len(got) > 400 || !strings.Contains(got, `"text/html; charset=utf-8" and begins with "<html><h1>Log in`) || !strings.HasSuffix(got, "; until then revision 1 stands") {
		t.Errorf("the problem is %q", got)
	}
	w.refused("a manifest of another type", typed("text/plain", text(2, "b")), WrongType)
	w.refused("a page called JSON", typed("application/json", page), Malformed)
	w.refused("a redirect", func(context.Context, upstream.Request) (upstream.Answer, error) {
		return upstream.Answer{}, &upstream.RedirectError{To: "https://portal.example", Reason: "is another origin"}
	}, Unreachable)
	w.refused("511", status(511, 0), HTTPStatus)
	w.must(file(text(1, "a"), `"1"`))
	w.want("afterwards", "a", "")
	w.secret()
}

// Whatever the server says instead of a manifest, nothing is removed.
func TestI02_StatusesRemoveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a", "b"), `"1"`))
	for _, code := range []int{304, 401, 403, 404, 410, 429, 500, 502, 503, 504} {
		w.refused(fmt.Sprint(code), status(code, 0), HTTPStatus)
	}
	w.refused("no server", unreachable(), Unreachable)
	w.refused("too large", func(context.Context, upstream.Request) (upstream.Answer, error) {
		return upstream.Answer{}, fmt.Errorf("get: %w", upstream.ErrTooLarge)
	}, TooLarge)
	w.refused("no certificate", func(context.Context, upstream.Request) (upstream.Answer, error) {
		return upstream.Answer{}, fmt.Errorf("get: %w", &upstream.CredentialError{Role: "certificate", Path: "/etc/client.pem", Err: errDisk})
	}, Credentials)
	w.must(file(text(1, "a", "b"), `"1"`))
	w.want("back", "a b", "")
}

func TestCase137_TagsAreOpaqueAndEqualContentIsNoChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := text(1, "a", "b")
	w.must(file(body, `"x"`))
	before := w.s.Snapshot()
	kept := w.store.Content()
	for _, tag := range []string{`W/"x"`, `"x-gzip"`, `W/"x-gzip"`, "x", "", `"a,b c"`} {
		w.must(func(_ context.Context, r upstream.Request) (upstream.Answer, error) { return good(body, tag), nil })
		if got := w.s.etag(); got != tag {
			t.Errorf("sends %q, was given %q", got, tag)
		}
	}
	after := w.s.Snapshot()
	if !maps.EqualFunc(before.Entries, after.Entries, func(a, b entry) bool { return a.Spec == b.Spec && a.Hash == b.Hash }) {
		t.Error("equal content gave other specs")
	}
	if after.Seq != before.Seq+6 {
		t.Errorf("sequence %d, was %d: each is a good read", after.Seq, before.Seq)
	}
	if now := w.store.Content(); len(now.Entries) != len(kept.Entries) || string(now.Entries[0].Body) != string(kept.Entries[0].Body) {
		t.Error("equal content was written again")
	}
	if n := strings.Count(w.log.text(), "manifest taken"); n != 1 {
		t.Errorf("taken %d times by the log", n)
	}
}

func TestI02_RevisionsNeverGoDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(5, "a", "b"), `"5"`))
	for range 2 { // and again after a restart
		w.refused("lower", file(text(4, "a"), `"4"`), Rollback)
		w.refused("same, other content", file(text(5, "a"), `"5b"`), Equivocation)
		w.start()
	}
	w.must(file(text(5, "a", "b"), `"5"`))
	w.must(file(text(6, "a"), `"6"`))
	must(t, w.s.Reset())
	w.want("forgotten", "a", "")
	w.start()
	w.must(file(text(2, "b"), `"2"`))
	w.want("after that any counts", "b", "")
	w.refused("and from then on", file(text(1, "a"), `"1"`), Rollback)
	must(t, w.s.Reset())
	w.must(file(text(2, "b"), `"2b"`))
	w.start()
	w.refused("content that stood counts too", file(text(1, "a"), `"1"`), Rollback)
}

// One proxy that is wrong, or not allowed, keeps the whole from counting.
func TestI03_OneBadProxyKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a", "b"), `"1"`))
	w.refused("an image", file(strings.Replace(text(2, "a", "c"), `"name": "c"`, `"name": "c", "image": "x"`, 1), `"2"`), Invalid)
	w.refused("policy", file(strings.Replace(text(2, "a", "c"), `"name": "c"`, `"name": "c", "skip_cleanup": true`, 1), `"2"`), PolicyRefused)
	w.must(file(text(2, "a", "c"), `"2"`))
	w.want("mended", "a c", "")
	w.secret()
}

func TestExpiryAndClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opt.Built = epoch.Add(90 * time.Minute)
	w.start()
	body := strings.Replace(text(1, "a"), `"proxies"`, `"expires_at": "2026-02-01T01:00:00Z", "proxies"`, 1)
	w.must(file(body, `"1"`))
	stale := func(want bool) {
		t.Helper()
		if got := w.s.Status().Stale; got != want {
			t.Errorf("stale: %v", got)
		}
		w.want("whatever the clock says", "a", "")
	}
	stale(false)
	w.now = epoch.Add(2 * time.Hour)
	stale(true)
	ahead := func(by time.Duration) func(context.Context, upstream.Request) (upstream.Answer, error) {
		return func(context.Context, upstream.Request) (upstream.Answer, error) {
			return upstream.Answer{Status: 304, Date: w.now.Add(-by), Skew: by}, nil
		}
	}
	for range 3 {
		w.must(ahead(2 * time.Hour))
		stale(false) // by a clock that is wrong nothing is
	}
	if st := w.s.Status(); !st.Skewed || st.Skew != 2*time.Hour {
		t.Errorf("%+v", st)
	}
	for range 3 {
		w.must(ahead(time.Minute))
		stale(true)
	}
	w.now = epoch.Add(80 * time.Minute) // before the agent was built
	stale(false)
	for line, want := range map[string]int{"are apart": 1, "agree": 1, "past its expires_at": 1} {
		if got := strings.Count(w.log.text(), line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, w.log.text())
		}
	}
}

// A trouble is logged when it begins, rarely while it lasts, and when it ends,
// however its wording changes.
func TestLogSaysChangesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a"), `"1"`))
	down, shown := unreachable(), map[string]bool{}
	for range 500 {
		_ = w.attempt(down)
		shown[w.s.Snapshot().Problem] = true
	}
	if n := strings.Count(w.log.text(), "manifest in doubt"); n != 3 || len(shown) != 3 {
		t.Errorf("500 failures: %d lines, %d problems shown; want those of the 1st, 10th and 100th", n, len(shown))
	}
	_ = w.attempt(status(503, 0))
	_ = w.attempt(status(401, 0))
	_ = w.attempt(status(401, 0))
	if n := strings.Count(w.log.text(), "manifest in doubt"); n != 5 {
		t.Errorf("%d lines after two other troubles", n)
	}
	w.must(file(text(1, "a"), `"1"`))
	w.must(file(text(1, "a"), `"1"`))
	if n := strings.Count(w.log.text(), "manifest is read again"); n != 1 || !strings.Contains(w.log.text(), "failures=503") {
		t.Errorf("%d lines of its end:\n%s", n, w.log.text())
	}
}

// User-data is in nothing that is said about a document, whatever is wrong with
// it and wherever it was cut off.
func TestI12_UserDataIsShownNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a"), `"1"`))
	w.secret()
	whole := text(2, "a", "b")
	for cut := range whole {
		w.refused(fmt.Sprint("cut at ", cut), file(whole[:cut], `"2"`), Malformed)
	}
	for _, proxy := range []string{
		`"user_data": ["k4n4ry"]`, `"user_data": {"a": "k4n4ry"}`, `"user_data_base64": "k4n4ry!"`, `"user_data": "k4n4ry \ud800"`,
		`"user_data": "k4n4ry", "user_data_base64": "azRuNHJ5"`, `"user_data": "k4n4ry", "user_data": "k4n4ry"`, `"user_data": "k4n4ry" "x"`,
		`"network_config": "- k4n4ry"`, `"vars": {"x": ["k4n4ry"]}`, `"vars": {"instance-id": "k4n4ry"}`, `"user_data_file": "k4n4ry"`,
		`"user_data": "k4n4ry\u0000", "image": "x"`,
	} {
		body := strings.Replace(text(2, "a"), `"name": "a"`, `"name": "a", `+proxy, 1)
		body = strings.Replace(body, `, "user_data": "#cloud-config\n# k4n4ry a\n"`, "", 1)
		if err := w.attempt(file(body, `"2"`)); err == nil {
			t.Errorf("taken: %s", proxy)
		}
		w.secret()
	}
	w.secret()
}
