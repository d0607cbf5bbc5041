package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// tuning is an action that gives the NIC of b's proxy those limits.
func (b *bench) tuning(in, out spec.Rate) plan.Action {
	a := b.action(plan.Tune)
	a.Spec.Networks[0].Inbound, a.Spec.Networks[0].Outbound = in, out
	a.Hash = a.Spec.Hash()
	return a
}

// limited is what the domain's documents, what it starts with and what it runs
// on, say of limits.
func (b *bench) limited(uuid string) [2]string {
	b.t.Helper()
	var out [2]string
	for i, inactive := range []bool{true, false} {
		xml, err := b.hv.DomainXML(b.t.Context(), uuid, inactive)
		if err != nil {
			b.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(xml, "<bandwidth>")
		out[i], _, _ = strings.Cut(rest, "</bandwidth>")
	}
	return out
}

// claimed is the hash in the domain's claim.
func (b *bench) claimed(uuid string) spec.Hash {
	b.t.Helper()
	o, err := domxml.DecodeOwnership(b.claim(uuid))
	if err != nil {
		b.t.Fatal(err)
	}
	return o.Spec
}

func TestTuneSetsWhatRunsAndWhatStarts(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start)
	uuid := b.action("").UUID
	const both = `<inbound average="2"></inbound><outbound average="500"></outbound>`
	for _, c := range []struct {
		in, out spec.Rate
		want    string
	}{{1500, 500_000, both}, {1500, 500_000, both}, {0, 1000, `<outbound average="1"></outbound>`}, {0, 0, ""}} {
		a := b.tuning(c.in, c.out)
		if err := b.Run(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([2]string{c.want, c.want}, b.limited(uuid)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := b.claimed(uuid); got != a.Hash {
			t.Errorf("the claim says %s, want %s", got, a.Hash)
		}
		if got := b.recordOf(a).SpecHash; got != a.Hash.String() {
			t.Errorf("the record says %s, want %s", got, a.Hash)
		}
	}
	if d, _ := b.hv.Domain(uuid); d.Power != observe.PowerRunning || slices.ContainsFunc(b.hv.Changes(), func(c string) bool { return strings.HasPrefix(c, "Destroy") }) {
		t.Errorf("it did not run on: %+v", d)
	}
}

// Wherever a try is cut off, the claim is of no spec until all is done, and the
// next try, for whatever spec by then, ends well.
func TestATuneIsCutOffAnywhere(t *testing.T) {
	for point := 1; ; point++ {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define, plan.Start)
		uuid, first := b.action("").UUID, b.action("").Hash
		n, dead := 0, errors.New("the agent died")
		b.hv.Gate(func(string) error {
			if n++; n == point {
				return dead
			}
			return nil
		})
		err := b.Run(t.Context(), b.tuning(1000, 0))
		b.hv.Gate(nil)
		if err == nil {
			if point != 4 {
				t.Errorf("a tune is %d changes", point-1)
			}
			return
		}
		changed := b.limited(uuid) != [2]string{}
		if got := b.claimed(uuid); changed && (got == first || got == b.tuning(1000, 0).Hash) {
			t.Errorf("cut off at %d: the limits are set, the claim says %s", point, got)
		}
		again := b.tuning(0, 0) // the spec is what it was
		if err := b.Run(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		if got := b.limited(uuid); got != [2]string{} || b.claimed(uuid) != first || b.recordOf(again).SpecHash != first.String() {
			t.Errorf("cut off at %d, then put back: limits %q, claim %s", point, got, b.claimed(uuid))
		}
	}
}

func TestTuneRefuses(t *testing.T) {
	for name, change := range map[string]func(b *bench, a *plan.Action){
		"another incarnation": func(_ *bench, a *plan.Action) { a.Instance = "i-0000000000000009" },
		"other memory":        func(_ *bench, a *plan.Action) { a.Spec.Memory *= 2; a.Hash = a.Spec.Hash() },
		"foreign":             func(b *bench, a *plan.Action) { b.hv.AdminSetMetadata(a.UUID, domxml.Namespace, "") },
	} {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define, plan.Start)
		a := b.tuning(1000, 0)
		change(b, &a)
		before := b.hv.String()
		if err := b.Run(t.Context(), a); err == nil {
			t.Errorf("%s: tuned", name)
		}
		if diff := cmp.Diff(before, b.hv.String()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

// TestARefusedVLANSaysWhatToDo: libvirt's own words, and a remedy.
func TestARefusedVLANSaysWhatToDo(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	said := &observe.Error{Op: "start domain", Object: "x", Class: observe.Permanent, Err: errors.New("vlan tag not supported for this connection type")}
	for _, vlan := range []int{0, 42} {
		b.hv.Fail("Start", 1, said)
		a := b.action(plan.Start)
		a.Spec.Networks[0].VLAN = vlan
		err := b.Run(t.Context(), a)
		if observe.ClassOf(err) != observe.Permanent || !errors.Is(err, said) {
			t.Errorf("vlan %d: %v", vlan, err)
		}
		if helps := strings.Contains(fmt.Sprint(err), "ip link add"); helps != (vlan != 0) {
			t.Errorf("vlan %d: %v", vlan, err)
		}
	}
}

// What was saved with other limits is not what the next start goes on with.
func TestTuneOfADomainThatIsOffDropsSavedState(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start)
	uuid := b.action("").UUID
	b.hv.AdminSave(uuid)
	if err := b.Run(t.Context(), b.tuning(0, 1000)); err != nil {
		t.Fatal(err)
	}
	b.do(plan.Start)
	const want = `<outbound average="1"></outbound>`
	if diff := cmp.Diff([2]string{want, want}, b.limited(uuid)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(b.notes) != 1 {
		t.Errorf("notes %q", b.notes)
	}
}
