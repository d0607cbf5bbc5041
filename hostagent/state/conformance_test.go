package state

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// keeper is what both Store and Memory are, and what is found after a restart.
type keeper interface {
	Save(...Change) error
	Reject(Entry, error) string
	Content() Content
}

// durable is a Store that is opened again to look at it.
type durable struct {
	*Store
	t   *testing.T
	dir string
}

func (d *durable) Content() Content {
	d.t.Helper()
	if err := d.Close(); err != nil {
		d.t.Fatal(err)
	}
	var c Content
	d.Store, c = mustOpen(d.t, d.dir)
	peeked, err := Peek(d.dir, testHost)
	if err != nil {
		d.t.Fatal(err)
	}
	if diff := diff(c, peeked); diff != "" {
		d.t.Errorf("Peek found something else (-open +peek):\n%s", diff)
	}
	return c
}

func TestConformanceOfStore(t *testing.T) {
	conformance(t, func(t *testing.T) keeper {
		dir := t.TempDir()
		s, _ := mustOpen(t, dir)
		return &durable{s, t, dir}
	})
}

func TestConformanceOfMemory(t *testing.T) {
	conformance(t, func(*testing.T) keeper { return NewMemory() })
}

var errUnusable = errors.New("no such field")

var (
	specA  = entry(Spec, "a", `{"n":1}`)
	specAB = entry(Spec, "a-b", `"<&>"`)
)

// scenarios are what may happen to something that keeps state, and what is
// found afterwards.
var scenarios = map[string]struct {
	do       func(*testing.T, keeper)
	want     Content
	problems int
}{
	"nothing": {do: func(*testing.T, keeper) {}},
	"sorted by kind and key, not by file name": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Tombstone, "x", "null"), put(Spec, "a-b", `"<&>"`), put(Spec, "a", "{ \"n\" :\n1}"), put(Host, "host", "true")))
		},
		Content{Entries: []Entry{entry(Host, "host", "true"), specA, specAB, entry(Tombstone, "x", "null")}}, 0},
	"replaced": {
		func(t *testing.T, k keeper) { must(t, k.Save(put(Spec, "a", "0"), put(Spec, "a", `{"n":1}`))) },
		Content{Entries: []Entry{specA}}, 0},
	"removed": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Spec, "a", `{"n":1}`), put(Proxy, "a", "0"), gone(Proxy, "a"), gone(Proxy, "never")))
		},
		Content{Entries: []Entry{specA}}, 0},
	"the first failure ends it": {
		func(t *testing.T, k keeper) {
			if k.Save(put(Spec, "a", `{"n":1}`), put(Spec, "..", "0"), put(Spec, "c", "0")) == nil {
				t.Error("saved")
			}
		},
		Content{Entries: []Entry{specA}}, 0},
	"the body is the caller's": {
		func(t *testing.T, k keeper) {
			c := put(Spec, "a", `{"n":1}`)
			must(t, k.Save(c))
			c.Body[0] = '!'
			for _, e := range k.Content().Entries {
				e.Body[0] = '!'
			}
		},
		Content{Entries: []Entry{specA}}, 0},
	"rejected": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Spec, "a", `{"n":1}`), put(Spec, "b", "0"), put(Tombstone, "z", "1"), put(Spec, "A", "0")))
			reject(t, k, entry(Spec, "b", "0"), entry(Tombstone, "z", "1"), entry(Spec, "A", "0"))
		},
		Content{Entries: []Entry{specA}, Lost: map[Kind][]string{Spec: {"A", "b"}, Tombstone: {"z"}}}, 3},
	"lost over many restarts": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Spec, "b", "0")))
			reject(t, k, entry(Spec, "b", "0"))
			k.Content()
			reject(t, k, entry(Spec, "b", "0"))
			k.Content()
		},
		Content{Lost: map[Kind][]string{Spec: {"b"}}}, 1},
	"lost until it is put or removed": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Spec, "a", "0"), put(Spec, "b", "0")))
			reject(t, k, entry(Spec, "a", "0"), entry(Spec, "b", "0"))
			k.Content()
			must(t, k.Save(put(Spec, "a", `{"n":1}`), gone(Spec, "b")))
		},
		Content{Entries: []Entry{specA}}, 0},
	"rejecting what is not there": {
		func(t *testing.T, k keeper) {
			must(t, k.Save(put(Spec, "a", `{"n":1}`)))
			reject(t, k, entry(Spec, "b", "0"), entry(Spec, "../spec/a", "0"), entry("", "a", "0"))
		},
		Content{Entries: []Entry{specA}}, 0},
}

// conformance holds for everything that keeps state.
func conformance(t *testing.T, fresh func(*testing.T) keeper) {
	for name, c := range scenarios {
		t.Run(name, func(t *testing.T) {
			k := fresh(t)
			c.do(t, k)
			got := k.Content()
			if diff := diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Problems) != c.problems {
				t.Errorf("problems %q, want %d", got.Problems, c.problems)
			}
		})
	}
	t.Run("changes", func(t *testing.T) { conformChanges(t, fresh(t)) })
	t.Run("concurrent", func(t *testing.T) { conformConcurrent(t, fresh(t)) })
}

// conformChanges: what can be an entry and what can not.
func conformChanges(t *testing.T, k keeper) {
	long := fmt.Sprintf("%0200d", 0)
	for _, c := range []struct {
		Change
		ok bool
	}{
		{put(Spec, "scraper-eu_1.example", "{}"), true},
		{put(Tombstone, "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "{}"), true},
		{put(Tombstone, long, "{}"), true},
		{put(Tombstone, long+"0", "{}"), false},
		{put(Spec, "", "{}"), false},
		{put(Spec, ".a", "{}"), false},
		{put(Spec, "-a", "{}"), false},
		{put(Spec, "a/b", "{}"), false},
		{put(Spec, "a\n", "{}"), false},
		{put(Spec, "ä", "{}"), false},
		{put(Spec, "a\x00", "{}"), false},
		{put("specs", "a", "{}"), false},
		{put("", "a", "{}"), false},
		{put("..", "a", "{}"), false},
		{put(Spec, "body", ""), false},
		{put(Spec, "body", "{"), false},
		{put(Spec, "body", "1 2"), false},
		{gone(Spec, "../spec/a"), false},
		{gone("staging", "a"), false},
	} {
		if err := k.Save(c.Change); (err == nil) != c.ok {
			t.Errorf("%q %q %q: %v, want ok %v", c.Kind, c.Key, c.Body, err, c.ok)
		}
	}
	if got := k.Content(); len(got.Entries) != 3 || len(got.Problems) != 0 {
		t.Errorf("kept %+v", got)
	}
}

func conformConcurrent(t *testing.T, k keeper) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			key := fmt.Sprintf("p%d", i)
			if err := k.Save(put(Proxy, key, "1"), put(Spec, key, "1"), gone(Spec, key)); err != nil {
				t.Error(err)
			}
			if i == 0 {
				k.Reject(entry(Proxy, key, "1"), errUnusable)
			}
		})
	}
	wg.Wait()
	if got := k.Content(); len(got.Entries) != 7 || len(got.Lost[Proxy]) != 1 {
		t.Errorf("%d entries, lost %v", len(got.Entries), got.Lost)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reject(t *testing.T, k keeper, entries ...Entry) {
	t.Helper()
	for _, e := range entries {
		if k.Reject(e, errUnusable) == "" {
			t.Errorf("nothing is said of %v", e.place())
		}
	}
}

func TestMemoryFailsWhenTold(t *testing.T) {
	m := NewMemory()
	m.Fail = func(c Change) error {
		if c.Gone {
			return errUnusable
		}
		return nil
	}
	must(t, m.Save(put(Spec, "a", "1")))
	if err := m.Save(gone(Spec, "a"), put(Spec, "b", "1")); !errors.Is(err, errUnusable) {
		t.Error(err)
	}
	if diff := diff(Content{Entries: []Entry{entry(Spec, "a", "1")}}, m.Content()); diff != "" {
		t.Error(diff)
	}
}
