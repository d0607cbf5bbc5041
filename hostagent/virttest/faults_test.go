package virttest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func TestFakeFaults(t *testing.T) {
	t.Parallel()
	f := one(t)
	ctx := t.Context()
	boom := errors.New("boom")
	f.Fail("Start", 2, boom)
	for range 2 {
		if err := f.Start(ctx, testUUID); !errors.Is(err, boom) {
			t.Errorf("fault gave %v", err)
		}
	}
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerOff {
		t.Error("a failed call had an effect")
	}
	f.FailAfter("Start", 1, boom)
	if err := f.Start(ctx, testUUID); !errors.Is(err, boom) {
		t.Errorf("lost answer gave %v", err)
	}
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerRunning {
		t.Error("a call whose answer got lost had no effect")
	}
	f.Fail("ListDomains", Forever, boom)
	for range 10 {
		if _, err := f.ListDomains(ctx); !errors.Is(err, boom) {
			t.Errorf("fault gave %v", err)
		}
	}
	f.Fail("ListDomains", 0, nil)
	if _, err := f.ListDomains(ctx); err != nil {
		t.Error(err)
	}
	check(t, "calls", map[string]int{"Start": 3, "ListDomains": 11}, f.Calls())
	check(t, "changes", []string{"Start " + testUUID}, f.Changes())
}

// A closed gate keeps every changing call from its effect, and no other.
func TestFakeGate(t *testing.T) {
	t.Parallel()
	f, ctx := one(t), t.Context()
	shut := errors.New("shut")
	var asked []string
	f.Gate(func(method string) error {
		asked = append(asked, method)
		f.Domain(testUUID) // it may look
		return shut
	})
	before := f.String()
	_, drop := f.DropSaved(ctx, testUUID)
	for method, err := range map[string]error{
		"Define":          f.Define(ctx, testXML("b", "0a000000-0000-4000-8000-000000000002"), false),
		"CreateTransient": f.CreateTransient(ctx, testXML("c", "0a000000-0000-4000-8000-000000000003")),
		"Start":           f.Start(ctx, testUUID),
		"Resume":          f.Resume(ctx, testUUID),
		"Shutdown":        f.Shutdown(ctx, testUUID),
		"Destroy":         f.Destroy(ctx, testUUID),
		"Undefine":        f.Undefine(ctx, testUUID),
		"SetAutostart":    f.SetAutostart(ctx, testUUID, true),
		"SetBandwidth":    f.SetBandwidth(ctx, testUUID, "56:00:00:00:00:01", 1, 1),
		"SetMetadata":     f.SetMetadata(ctx, testUUID, ""),
		"DropSaved":       drop,
	} {
		if !errors.Is(err, shut) {
			t.Errorf("%s gave %v", method, err)
		}
	}
	check(t, "domains", before, f.String())
	check(t, "changes", []string(nil), f.Changes(), cmpopts.EquateEmpty())
	f.Fail("Start", 1, errors.New("boom"))
	if err := f.Start(ctx, testUUID); errors.Is(err, shut) || err == nil {
		t.Errorf("a call that has no effect came to the gate: %v", err)
	}
	if _, err := f.LookupDomain(ctx, testUUID); err != nil {
		t.Errorf("a read came to the gate: %v", err)
	}
	if len(asked) != len(changing) {
		t.Errorf("asked for %v", asked)
	}
	f.Gate(nil)
	if err := f.Start(ctx, testUUID); err != nil {
		t.Errorf("through the open gate: %v", err)
	}
}

func TestFakeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := one(t)
		release := f.Hang("Start")
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.Start(ctx, testUUID); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Errorf("hung call gave %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		if err := f.Start(t.Context(), testUUID); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != callTimeout {
			t.Errorf("hung call without deadline gave %v after %v", err, time.Since(begin))
		}
		started := make(chan error)
		go func() { started <- f.Start(t.Context(), testUUID) }()
		synctest.Wait()
		if d, _ := f.Domain(testUUID); d.Power != observe.PowerOff || f.Stats().Stuck != 1 {
			t.Errorf("while it hangs: %s, %+v", d.Power, f.Stats())
		}
		release()
		release()
		if err := <-started; err != nil {
			t.Error(err)
		}
		if err := f.Start(t.Context(), testUUID); err != nil || f.Stats().Stuck != 0 {
			t.Errorf("after the release: %v, %+v", err, f.Stats())
		}
	})
}

func TestFakeShortList(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.ShortList(2, testUUID)
	var got []int
	for range 3 {
		all, err := f.ListDomains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(all))
	}
	check(t, "list lengths", []int{0, 0, 1}, got)
}

func TestFakeEvents(t *testing.T) {
	t.Parallel()
	f := one(t)
	event := func(detail string) observe.Event {
		return observe.Event{Kind: observe.DomainChanged, UUID: testUUID, Detail: detail}
	}
	f.DropEvents(1)
	f.AdminStart(testUUID)
	f.DoubleEvents(1)
	f.AdminPause(testUUID)
	f.AdminResume(testUUID)
	f.LoseLink("cut")
	f.GuestPowerOff(testUUID)
	f.RestoreLink()
	f.EmitOverflow()
	check(t, "events", []observe.Event{
		event("suspended"), event("suspended"), event("resumed"),
		{Kind: observe.LinkLost, Detail: "cut"}, {Kind: observe.Connected}, {Kind: observe.Overflow},
	}, drain(f))

	for range 3 * eventsHeld {
		f.AdminPause(testUUID)
	}
	got := drain(f)
	if len(got) != eventsHeld+1 || got[eventsHeld].Kind != observe.Overflow {
		t.Errorf("%d events, last %+v; want one overflow after %d", len(got), got[len(got)-1], eventsHeld)
	}
	f.AdminPause(testUUID)
	check(t, "events after the overflow", []observe.Event{event("suspended")}, drain(f))
}

func TestFakeLink(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.LoseLink("cut")
	_, err := f.LookupDomain(t.Context(), testUUID)
	if observe.ClassOf(err) != observe.Disconnected || errors.Is(err, observe.ErrNoDomain) || f.Stats().Connected {
		t.Errorf("without a link: %v, %+v", err, f.Stats())
	}
	f.RestoreLink()
	if _, err := f.LookupDomain(t.Context(), testUUID); err != nil || f.Stats().Connects != 2 {
		t.Errorf("with the link back: %v, %+v", err, f.Stats())
	}
}
