package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestAutostartIsWhatTheActionSays(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	for _, on := range []bool{false, true} {
		for _, k := range []plan.Kind{plan.Autostart, plan.Define} {
			a := b.action(k)
			a.On = !on
			first := b.Run(t.Context(), a)
			a.On = on
			if err := errors.Join(first, b.Run(t.Context(), a)); err != nil {
				t.Fatal(err)
			}
			if d, _ := b.hv.Domain(a.UUID); d.Autostart != on {
				t.Errorf("%s with on = %t: autostart %t", k, on, d.Autostart)
			}
		}
	}
}

// Case 94: what libvirt-guests or an admin saved goes on where it left off.
func TestCase094APlainStartTakesSavedStateUp(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start)
	uuid := b.action("").UUID
	b.hv.AdminPause(uuid)
	b.hv.AdminSave(uuid)
	b.do(plan.Start)
	if d, _ := b.hv.Domain(uuid); d.Power != observe.PowerPaused { // as it was saved
		t.Errorf("%+v", d)
	}
	if n := b.hv.Calls()["DropSaved"]; n != 0 || len(b.notes) != 0 {
		t.Errorf("saved state dropped: %d calls, %q", n, b.notes)
	}
}

// A restart with other memory and a recreate begin anew, whatever was saved; a
// domain that runs has nothing saved.
func TestADefinitionDropsSavedState(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start, plan.Define)
	a := b.action(plan.Define)
	if n := b.hv.Calls()["DropSaved"]; n != 0 {
		t.Errorf("%d calls for a domain that is absent or runs", n)
	}
	b.hv.AdminPause(a.UUID)
	b.hv.AdminSave(a.UUID)
	boom := errors.New("boom")
	b.hv.Fail("DropSaved", 1, boom)
	if err := b.Run(t.Context(), a); !errors.Is(err, boom) {
		t.Errorf("defined although the state may be there: %v", err)
	}
	a.Reason = "memory changed"
	for range 2 {
		if err := b.Run(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.notes) != 1 || !strings.HasPrefix(b.notes[0], "p: ") || !strings.Contains(b.notes[0], "memory changed") {
		t.Errorf("notes %q, want one", b.notes)
	}
	b.do(plan.Start)
	if d, _ := b.hv.Domain(a.UUID); d.Power != observe.PowerRunning {
		t.Errorf("the old state was taken up: %+v", d)
	}
}

// The record follows what the domain need not know, and keeps the rest.
func TestRecordFollowsTheSpec(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	a := b.action(plan.Record)
	want := b.recordOf(a)
	a.Spec.SkipCleanup, a.Origin = true, "manifest"
	a.Spec.Memory *= 2
	a.Hash = a.Spec.Hash()
	want.SkipCleanup, want.Origin = true, "manifest"
	changes := len(b.hv.Changes())
	var stamps []os.FileInfo
	for range 2 {
		if err := b.Run(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(b.tree.Paths("p", inst).Record)
		if err != nil {
			t.Fatal(err)
		}
		stamps = append(stamps, fi)
	}
	if d := cmp.Diff(want, b.recordOf(a)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !os.SameFile(stamps[0], stamps[1]) {
		t.Error("a record that was right was written again")
	}
	if n := len(b.hv.Changes()); n != changes {
		t.Errorf("changes: %v", b.hv.Changes()[changes:])
	}
	a.Instance = "i-ffffffffffffffff"
	if err := b.Run(t.Context(), a); err == nil {
		t.Error("no record, no error")
	}
}

// Prepare and Define write down what deciding needs later.
func TestTheRecordSaysWhoseItIs(t *testing.T) {
	b := newBench(t)
	b.NewInstance = func() string { return "i-0000000000000002" }
	a := second(b.action(plan.Prepare))
	a.Spec.SkipCleanup = true
	if err := b.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if r := b.recordOf(a); r.Generation != 1 || !r.SkipCleanup || r.UUID != a.UUID {
		t.Errorf("%+v", r)
	}
	a.Kind, a.Spec.SkipCleanup = plan.Define, false
	if err := b.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if r := b.recordOf(a); r.Generation != 1 || r.SkipCleanup {
		t.Errorf("%+v", r)
	}
	o, err := domxml.DecodeOwnership(b.claim(a.UUID))
	if err != nil || o.Generation != 1 || o.Name != "p" {
		t.Errorf("%+v, %v", o, err)
	}
	a.Kind = plan.Start
	if err := b.Run(t.Context(), a); err != nil {
		t.Errorf("its own domain: %v", err)
	}
}

func TestAdoptWritesTheSameClaimAgain(t *testing.T) {
	for name, lost := range map[string]string{"no claim": "", "unreadable": `<proxy host="host-1" name="p"/>`} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(plan.Prepare, plan.Define, plan.Start)
			a := b.action(plan.Adopt)
			want := b.claim(a.UUID)
			b.hv.AdminSetMetadata(a.UUID, "urn:other", `<app key="1"/>`)
			b.hv.AdminSetMetadata(a.UUID, domxml.Namespace, lost)
			a.Spec, a.Hash, a.Origin, a.Base = nil, spec.Hash{}, "", nil // the record is enough
			changes := len(b.hv.Changes())
			for range 2 {
				if err := b.Run(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, b.claim(a.UUID)); d != "" {
				t.Errorf("claim (-before the loss +after):\n%s", d)
			}
			if d := cmp.Diff([]string{"SetMetadata " + a.UUID}, b.hv.Changes()[changes:]); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if xml, _ := b.hv.DomainXML(t.Context(), a.UUID, true); !strings.Contains(xml, "urn:other") {
				t.Error("another's metadata is gone")
			}
		})
	}
}

// Only what the record proves to be ours is adopted.
func TestI04_AdoptRefuses(t *testing.T) {
	claim := func(text string) func(b *bench, a *plan.Action) {
		return func(b *bench, a *plan.Action) { b.hv.AdminSetMetadata(a.UUID, domxml.Namespace, text) }
	}
	record := func(change func(*observe.Record)) func(b *bench, a *plan.Action) {
		return func(b *bench, a *plan.Action) {
			r := b.recordOf(*a)
			change(&r)
			if err := b.tree.WriteRecord(r); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	for name, spoil := range map[string]func(b *bench, a *plan.Action){
		"another host's": claim(`<proxy host="host-2" name="p" instance="i" spec="1:a:b"/>`),
		"another name's": claim(`<proxy host="host-1" name="q" instance="i" spec="1:a:b"/>`),
		"abandoned":      record(func(r *observe.Record) { r.Abandoned = true }),
		"record of another VM": record(func(r *observe.Record) {
			r.UUID = domxml.DomainUUID(hostID, "q")
		}),
		"record of another generation": record(func(r *observe.Record) { r.Generation = 1 }),
		"no record": func(b *bench, _ *plan.Action) {
			if err := os.Remove(b.tree.Paths("p", inst).Record); err != nil {
				b.t.Fatal(err)
			}
		},
		"on another disk": func(b *bench, a *plan.Action) {
			xml, _ := b.hv.DomainXML(b.t.Context(), a.UUID, true)
			overlay := b.tree.Paths("p", inst).Overlay
			b.hv.AdminDefine(strings.Replace(xml, overlay, strings.TrimSuffix(overlay, ".qcow2")+".snapshot", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(plan.Prepare, plan.Define)
			a := b.action(plan.Adopt)
			b.hv.AdminSetMetadata(a.UUID, domxml.Namespace, "")
			spoil(b, &a)
			before, changes := b.hv.String(), len(b.hv.Changes())
			if err := b.Run(t.Context(), a); err == nil {
				t.Error("adopted")
			}
			if d := cmp.Diff(before, b.hv.String()); d != "" || len(b.hv.Changes()) != changes {
				t.Errorf("the domain was changed: %s", d)
			}
		})
	}
	b := newBench(t)
	b.do(plan.Prepare)
	if err := b.Run(t.Context(), b.action(plan.Adopt)); !errors.Is(err, observe.ErrNoDomain) {
		t.Errorf("no domain: %v", err)
	}
}

// Disown takes nothing but our claim and marks nothing but the records of that
// VM; done already and gone already are success.
func TestI05_DisownLeavesTheVMAsItIs(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start, plan.Autostart)
	b.NewInstance = func() string { return "i-0000000000000002" }
	next := second(b.action(plan.Prepare))
	if err := b.Run(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	a := b.action(plan.Disown)
	b.hv.AdminSetMetadata(a.UUID, "urn:other", `<app/>`)
	want, changes := b.recordOf(a), len(b.hv.Changes())
	want.Abandoned = true
	before, _ := b.hv.Domain(a.UUID)
	for range 2 {
		if err := b.Run(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	before.Metadata = ""
	after, _ := b.hv.Domain(a.UUID)
	xml, _ := b.hv.DomainXML(t.Context(), a.UUID, true)
	if d := cmp.Diff(before, after) + cmp.Diff(want, b.recordOf(a)); d != "" || !strings.Contains(xml, "urn:other") {
		t.Errorf("(-want +got):\n%s\n%s", d, xml)
	}
	if d := cmp.Diff([]string{"SetMetadata " + a.UUID}, b.hv.Changes()[changes:]); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if b.recordOf(next).Abandoned {
		t.Error("the next VM of the name was abandoned too")
	}
	b.hv.AdminDestroy(a.UUID)
	b.hv.AdminUndefine(a.UUID)
	if err := b.Run(t.Context(), a); err != nil {
		t.Errorf("gone: %v", err)
	}
}

func TestI05_DisownTriesBothSides(t *testing.T) {
	t.Run("no libvirt", func(t *testing.T) {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define)
		a := b.action(plan.Disown)
		b.hv.LoseLink("test")
		if err := b.Run(t.Context(), a); observe.ClassOf(err) != observe.Disconnected {
			t.Errorf("%v", err)
		}
		if !b.recordOf(a).Abandoned {
			t.Error("the record was not marked")
		}
	})
	t.Run("no image tree", func(t *testing.T) {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define)
		a := b.action(plan.Disown)
		if err := os.Remove(filepath.Join(filepath.Dir(filepath.Dir(b.base.Path)), ".egress-tree")); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context(), a); err == nil {
			t.Error("no error")
		}
		if got := b.claim(a.UUID); got != "" {
			t.Errorf("claim %s", got)
		}
	})
	t.Run("another's domain", func(t *testing.T) {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define)
		a := b.action(plan.Disown)
		b.hv.AdminSetMetadata(a.UUID, domxml.Namespace, `<proxy host="host-2" name="p" instance="i" spec="1:a:b"/>`)
		before := b.hv.String()
		if err := b.Run(t.Context(), a); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(before, b.hv.String()); d != "" {
			t.Errorf("changed:\n%s", d)
		}
	})
}

// The files of an abandoned VM are nobody's business any more.
func TestI05_NothingIsDoneWithAnAbandonedVMsFiles(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	refused := func(whose string, of func(plan.Action) plan.Action) {
		t.Helper()
		for _, k := range []plan.Kind{plan.Define, plan.Start, plan.Record, plan.Discard} {
			a := of(b.action(k))
			a.Instance = inst
			if err := b.Run(t.Context(), a); err == nil {
				t.Errorf("%s for %s succeeded", k, whose)
			}
		}
	}
	want := b.recordOf(b.action(""))
	refused("its successor, before it is marked", second)
	b.do(plan.Disown)
	refused("its successor", second)
	refused("itself", func(a plan.Action) plan.Action { return a })
	want.Abandoned = true
	_, err := os.Stat(b.tree.Paths("p", inst).Overlay)
	if d := cmp.Diff(want, b.recordOf(b.action(""))); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if _, there := b.hv.Domain(second(b.action("")).UUID); there {
		t.Error("another domain was defined on its files")
	}
}
