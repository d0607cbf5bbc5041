package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// A start without a network goes on with what was taken, judged anew.
func TestStartsFromWhatWasKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(3, "a", "b"), `"3"`))
	w.good = nil // of no need
	w.start()
	w.want("kept", "a b", NotFetched)
	if snap, st := w.s.Snapshot(), w.s.Status(); snap.Seq != 0 || !snap.Read.IsZero() || !st.FromCache || st.Revision != 3 || !st.FetchedAt.Equal(w.now) {
		t.Errorf("%+v, %+v", snap, st)
	}
	w.refused("no network", unreachable(), Unreachable)
	if !w.s.Status().FromCache {
		t.Error("not from the cache any more, though nobody answered")
	}
	w.must(file(text(3, "a", "b"), `"3"`))
	if w.s.Status().FromCache {
		t.Error("from the cache, though the server confirmed it")
	}
	w.want("confirmed", "a b", "")
}

// damage changes the body of an entry's document, or takes an entry away.
func (w *world) damage(key, body string) {
	w.t.Helper()
	for _, e := range w.store.Content().Entries {
		if e.Key != key {
			continue
		}
		c := state.Change{Entry: e, Gone: body == ""}
		c.Body = []byte(body)
		if strings.HasPrefix(body, "/") {
			old, to, _ := strings.Cut(body[1:], "/")
			c.Body = bytes.Replace(e.Body, []byte(old), []byte(to), 1)
		}
		must(w.t, w.store.Save(c))
		return
	}
	w.t.Fatalf("there is no entry %s", key)
}

// Without its body a tag says nothing: it is asked without one, and a 304 all
// the same counts for nothing.
func TestI02_Case135_NotModifiedWithoutABody(t *testing.T) {
	t.Parallel()
	always304 := func(context.Context, upstream.Request) (upstream.Answer, error) {
		return upstream.Answer{Status: 304, ETag: `"2"`}, nil
	}
	for what, damage := range map[string]string{
		"no entry": "", "not JSON of ours": `{"x": 1}`, "null": "null", "another body": `/"sum":"/"sum":"0`, "another body's length": `/"body":"/"body":"AAAA`,
	} {
		w := newWorld(t)
		w.must(file(text(1, "a", "x"), `"1"`))
		w.must(file(text(2, "a", "b"), `"2"`))
		w.damage("document-0", damage)
		w.start()
		w.want(what, "a b", NotFetched) // the last good specs; x was removed since the older document
		if snap := w.s.Snapshot(); w.s.etag() != "" || len(snap.Ignored) != 1 || w.s.Status().Lost == "" {
			t.Errorf("%s: tag %q, said %q", what, w.s.etag(), snap.Ignored)
		}
		w.refused(what, always304, NotModified)
		w.refused(what, file(text(1, "a", "x"), `"1"`), Rollback) // the ratchet is known even so
		w.must(file(text(2, "a", "b"), `"2"`))
		w.want(what, "a b", "")
		if snap := w.s.Snapshot(); len(snap.Ignored) != 0 {
			t.Errorf("%s: still says %q", what, snap.Ignored)
		}
		w.start()
		w.want(what, "a b", NotFetched)
		w.secret()
	}
}

func TestRatchetThatIsLost(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", "{}", `{"number": 1, "x": 1}`} {
		w := newWorld(t)
		w.must(file(text(1, "a"), `"1"`))
		w.must(file(text(2, "a", "b"), `"2"`))
		w.damage(ratchetKey, damage)
		w.start()
		w.want(damage, "a b", NotFetched)
		w.refused(damage, file(text(1, "a"), `"1"`), Rollback)
	}
}

// Another config may make a document bad that was good; what it last asked for
// runs on.
func TestI03_ConfigChangeKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(1, "a", "b"), `"1"`))
	cat := w.rules.Catalog
	w.rules.Catalog.Images = map[string]spec.Image{"debian-14": cat.Images["debian-13"]}
	w.start()
	w.want("image gone", "a b", NotFetched)
	if lost := w.s.Status().Lost; !strings.Contains(lost, `proxies[0]: image: there is no image "debian-13"`) && !strings.Contains(lost, `image "debian-13"`) {
		t.Errorf("it says %q", lost)
	}
	w.refused("image gone", file(text(1, "a", "b"), `"1"`), Invalid)
	w.rules.Catalog, w.rules.Host = cat, "h9"
	w.start()
	w.refused("another host", file(text(1, "a", "b"), `"1"`), WrongHost)
	w.want("another host", "a b", WrongHost)
	w.rules.Host = "h1"
	w.start()
	if w.s.etag() != `"1"` {
		t.Errorf("tag %q", w.s.etag())
	}
	w.rules.Name = "https://other.example/h1.json"
	w.start()
	if w.s.etag() != "" || w.s.Status().Revision != 1 {
		t.Error("the tag of another URL is sent")
	}
}

// Whatever of a taking fails, or is the last thing before a crash, the old
// document stands or the new one, and the next attempt takes the new.
func TestI02_AWriteThatFailsLeavesOldOrNew(t *testing.T) {
	t.Parallel()
	for step := range 2 {
		for _, crash := range []bool{false, true} {
			w := newWorld(t)
			w.must(file(text(1, "a", "x"), `"1"`))
			n := -1
			w.store.Fail = func(state.Change) error {
				if n++; n == step {
					return errDisk
				}
				return nil
			}
			w.refused("a full disk", file(text(2, "a", "b"), `"2"`), NotKept)
			w.store.Fail = nil
			if crash {
				w.start()
				stands := [...]string{"a x", "a b"}[step]
				w.want(fmt.Sprint("after step ", step), stands, NotFetched)
				if step == 1 {
					w.refused("counted with its document", file(text(1, "a", "x"), `"1"`), Rollback)
				}
			}
			w.must(file(text(2, "a", "b"), `"2"`))
			w.want("afterwards", "a b", "")
			w.start()
			w.want("after a restart", "a b", NotFetched)
		}
	}
}

func TestResetThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(file(text(2, "a"), `"2"`))
	w.store.Fail = func(state.Change) error { return errDisk }
	if err := w.s.Reset(); err == nil {
		t.Error("forgotten, but not durably")
	}
	w.refused("not forgotten", file(text(1, "a"), `"1"`), Rollback)
}

// The state directory itself keeps a document to the byte, the one before it
// too, and lets only the agent read it.
func TestKeptInTheStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := strings.Replace(text(1, "a"), `\n"`, strings.Repeat("x", 256<<10)+`\n"`, 1)
	for i, body := range []string{big, text(2, "b"), text(3, "c")} {
		st, content, err := state.Open(dir, "host-1")
		must(t, err)
		s := New(Options{Store: st, Rules: rules()})
		s.Restore(content.Entries, nil)
		if got := s.Status().Revision; got != int64(i) {
			t.Errorf("revision %d was kept, want %d", got, i)
		}
		if _, err := s.take(good(body, ""), "", epoch); err != nil {
			t.Fatal(err)
		}
		must(t, st.Close())
	}
	content, err := state.Peek(dir, "host-1")
	must(t, err)
	var kept []string
	for _, e := range content.Entries {
		if d, err := readDocument(e); err == nil {
			kept = append(kept, fmt.Sprint(d.Revision, d.Digest == digestOf([]byte(text(int(d.Revision), string(rune('a'+d.Revision-1)))))))
		}
		info, err := os.Stat(dir + "/manifest/" + e.Key + ".json")
		must(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Key, info.Mode())
		}
	}
	if got := strings.Join(kept, ", "); got != "2 true, 3 true" {
		t.Errorf("kept: %s", got)
	}
}

// What comes in an envelope is judged by what is in it, at a restart too.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opt.Open = func(body []byte) ([]byte, string, error) { // key:digest:document
		key, rest, _ := strings.Cut(string(body), ":")
		signature, document, _ := strings.Cut(rest, ":")
		if sum := sha256.Sum256([]byte(key + document)); signature != hex.EncodeToString(sum[:]) {
			return nil, "", &Fault{Reason: "BadSignature", Text: "the signature is wrong"}
		}
		return []byte(document), key, nil
	}
	sign := func(key, document string) string {
		sum := sha256.Sum256([]byte(key + document))
		return key + ":" + hex.EncodeToString(sum[:]) + ":" + document
	}
	w.start()
	w.must(file(sign("k1", text(7, "a")), `"1"`))
	if st := w.s.Status(); st.Key != "k1" || st.Digest != digestOf([]byte(text(7, "a"))) {
		t.Errorf("%+v", st)
	}
	w.refused("a wrong signature", file("k1:00:"+text(8, "b"), `"2"`), "BadSignature")
	w.refused("a revision of before", file(sign("k1", text(6, "a")), `"2"`), Rollback)
	w.must(file(sign("k2", text(1, "b")), `"3"`)) // another key counts for itself
	w.start()
	w.want("kept", "b", NotFetched)
	w.refused("the first key's", file(sign("k1", text(6, "a")), `"2"`), Rollback)
	w.opt.Open = nil
	w.start()
	w.refused("bare", file(text(9, "c"), `"4"`), Unsigned)
	w.want("bare", "b", Unsigned)
}

// stuck is a Store whose writes wait.
type stuck struct{ begun, goOn chan struct{} }

func (s stuck) Save(...state.Change) error {
	s.begun <- struct{}{}
	<-s.goOn
	return nil
}

// TestI15_AStuckWriteDelaysNoLook: who only looks, the watchdog among them, does
// not wait for a disk.
func TestI15_AStuckWriteDelaysNoLook(t *testing.T) {
	t.Parallel()
	store := stuck{make(chan struct{}), make(chan struct{})}
	s := New(Options{Get: &server{answer: file(text(1, "a"), "1")}, Store: store, Rules: rules()})
	done := make(chan source.Snapshot)
	go func() { done <- s.Once(t.Context()) }()
	<-store.begun
	if st := s.Status(); st.Revision != 0 {
		t.Errorf("revision %d counts before it is written", st.Revision)
	}
	if snap := s.Snapshot(); len(snap.Entries) != 0 {
		t.Errorf("%d entries", len(snap.Entries))
	}
	close(store.goOn)
	if snap := <-done; !snap.Synced || s.Status().Revision == 0 {
		t.Errorf("%+v", snap)
	}
}
