package virt

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// reader forwards a mailbox and reads from it.
func reader(t *testing.T, m *mailbox) (next func() observe.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.forward(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return func() observe.Event {
		t.Helper()
		select {
		case ev := <-m.out:
			return ev
		case <-time.After(patience):
			t.Fatal("no event")
			return observe.Event{}
		}
	}
}

func TestI14_AFullMailboxGivesOneOverflow(t *testing.T) {
	t.Parallel()
	m := newMailbox()
	for i := range 3 * hintsHeld {
		m.hint(observe.Event{Kind: observe.DomainChanged, UUID: fmt.Sprint(i)}) // must not block
	}
	next := reader(t, m)
	if ev := next(); ev.Kind != observe.Overflow {
		t.Errorf("first %+v, want the overflow", ev)
	}
	for i := range hintsHeld {
		if ev := next(); ev.UUID != fmt.Sprint(i) {
			t.Fatalf("event %d is %+v", i, ev)
		}
	}
	m.hint(observe.Event{Kind: observe.DomainChanged, UUID: "after"})
	if ev := next(); ev.UUID != "after" {
		t.Errorf("after the overflow: %+v", ev)
	}
}

func TestALinkIsALevel(t *testing.T) {
	t.Parallel()
	up := observe.Event{Kind: observe.Connected}
	once, again := observe.Event{Kind: observe.LinkLost, Detail: "once"}, observe.Event{Kind: observe.LinkLost, Detail: "again"}
	m := newMailbox()
	var told *linkState
	for _, step := range []struct {
		name      string
		set, want []observe.Event
	}{
		{"nothing yet", nil, nil},
		{"lost at first", []observe.Event{once}, []observe.Event{once}},
		{"only the last of several", []observe.Event{up, again, up}, []observe.Event{up}},
		{"a short loss", []observe.Event{once, up, again, up}, []observe.Event{again, up}},
		{"lost again", []observe.Event{once, up, again}, []observe.Event{again}},
		{"no change", nil, nil},
	} {
		for _, ev := range step.set {
			m.setLink(ev)
		}
		var got []observe.Event
		for ev, ok := m.urgent(&told); ok; ev, ok = m.urgent(&told) {
			got = append(got, ev)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestConnectedSettlesAnOverflow(t *testing.T) {
	t.Parallel()
	m := newMailbox()
	for range hintsHeld + 1 {
		m.hint(observe.Event{Kind: observe.DomainChanged})
	}
	m.setLink(observe.Event{Kind: observe.Connected})
	next := reader(t, m)
	if first, second := next(), next(); first.Kind != observe.Connected || second.Kind != observe.DomainChanged {
		t.Errorf("got %s, %s", first.Kind, second.Kind)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := backoff{min: 250 * time.Millisecond, max: 5 * time.Second}
	for i, top := range []time.Duration{250, 500, 1000, 2000, 4000, 5000, 5000} {
		top *= time.Millisecond
		if got := b.next(); got < top/2 || got > top {
			t.Errorf("pause %d is %v, want %v to %v", i, got, top/2, top)
		}
	}
	b.failures = 1 << 20
	if got := b.next(); got < b.max/2 || got > b.max {
		t.Errorf("pause after very many failures is %v", got)
	}
	b.reset()
	if got := b.next(); got > b.min {
		t.Errorf("pause after a reset is %v", got)
	}
}
