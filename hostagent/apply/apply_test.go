package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
	"github.com/egress-proxies/egress-hostagent/seed"
)

const (
	hostID = "host-1"
	inst   = "i-0000000000000001"
)

// bench is an executor on a fake hypervisor and a real image tree with one
// base image.
type bench struct {
	*Executor
	t     *testing.T
	hv    *virttest.Fake
	tree  *image.Tree
	base  observe.Base
	notes []string
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	root := filepath.Join(dir, "tree")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(dir, "base.qcow2")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", src, "64M").CombinedOutput(); err != nil {
		if os.Getenv("REQUIRE_ALL") == "1" {
			t.Fatalf("qemu-img: %v: %s", err, out)
		}
		t.Skipf("qemu-img is not usable (package qemu-utils): %v", err)
	}
	content, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, hv: virttest.New(domxml.Namespace), tree: image.New(root, hostID)}
	if err := b.tree.InitMarker(); err != nil {
		t.Fatal(err)
	}
	b.base, err = b.tree.EnsureBase(t.Context(), spec.Image{Key: "k", Source: src, SHA256: sha(content), Format: "qcow2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Executor = &Executor{
		Hypervisor: b.hv, Tree: b.tree, HostID: hostID, Acceleration: domxml.TCG,
		NewInstance: func() string { return inst }, Now: time.Now,
		Note: func(proxy, text string) { b.notes = append(b.notes, proxy+": "+text) },
	}
	return b
}

func (b *bench) spec() *spec.Spec {
	return &spec.Spec{
		Name: "p", Image: spec.Image{SHA256: b.base.SHA256, Format: "qcow2"}, CPUs: 1, Memory: 256 << 20, Disk: 128 << 20,
		UserData: spec.Secret("#cloud-config\n"), GuestAgent: true, Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}},
	}
}

func (b *bench) action(k plan.Kind) plan.Action {
	s := b.spec()
	return plan.Action{
		Kind: k, Name: "p", UUID: domxml.DomainUUID(hostID, "p"), Instance: inst, Domain: domxml.DomainName("p"),
		Spec: s, Hash: s.Hash(), Origin: "dir", Base: &b.base, On: true,
	}
}

func (b *bench) do(kinds ...plan.Kind) {
	b.t.Helper()
	for _, k := range kinds {
		if err := b.Run(b.t.Context(), b.action(k)); err != nil {
			b.t.Fatalf("%s: %v", k, err)
		}
	}
}

func TestLifeTwiceOver(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Define, plan.Start, plan.Start, plan.Autostart, plan.Autostart)
	d, ok := b.hv.Domain(b.action("").UUID)
	if !ok || d.Power != observe.PowerRunning || !d.Autostart {
		t.Fatalf("%+v", d)
	}
	incs := b.tree.ScanName("p")
	if len(incs) != 1 || !incs[0].Overlay || !incs[0].Seed {
		t.Fatalf("%+v", incs)
	}
	b.do(plan.Shutdown, plan.Shutdown, plan.Destroy, plan.Undefine, plan.Undefine, plan.Destroy)
	last := b.action(plan.Discard)
	last.Last = true
	for range 2 {
		if err := b.Run(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	if incs := b.tree.ScanName("p"); len(incs) != 0 {
		t.Errorf("left: %+v", incs)
	}
}

// TestI04_ADomainThatIsNotOursIsNotTouched: the claim vanished, or became
// another's, between planning and acting.
func TestI04_ADomainThatIsNotOursIsNotTouched(t *testing.T) {
	for name, claim := range map[string]string{
		"no claim":     "",
		"other host":   `<proxy host="host-2" name="p" instance="i" spec="1:a:b"/>`,
		"other name":   `<proxy host="host-1" name="q" instance="i" spec="1:a:b"/>`,
		"half a claim": `<proxy host="host-1" name="p"/>`,
		"a copy":       `<proxy host="host-1" name="p" instance="i" spec="1:a:b" generation="1"/>`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(plan.Prepare, plan.Define)
			b.hv.AdminSetMetadata(b.action("").UUID, domxml.Namespace, claim)
			before := b.hv.String()
			changes := len(b.hv.Changes())
			for _, k := range []plan.Kind{plan.Define, plan.Start, plan.Autostart, plan.Shutdown, plan.Destroy, plan.Undefine} {
				err := b.Run(t.Context(), b.action(k))
				if !errors.Is(err, errNotOurs) || observe.ClassOf(err) != observe.Clash {
					t.Errorf("%s: %v", k, err)
				}
			}
			if d := cmp.Diff(before, b.hv.String()); d != "" || len(b.hv.Changes()) != changes {
				t.Errorf("the domain was changed: %v\n%s", b.hv.Changes()[changes:], d)
			}
		})
	}
}

func TestI01_ALookUpErrorStopsTheAction(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	changes := len(b.hv.Changes())
	for _, k := range []plan.Kind{plan.Define, plan.Start, plan.Autostart, plan.Shutdown, plan.Destroy, plan.Undefine} {
		b.hv.Fail("LookupDomain", 1, &observe.Error{Op: "look up", Class: observe.Transient, Err: errors.New("x")})
		if err := b.Run(t.Context(), b.action(k)); err == nil {
			t.Errorf("%s went on without seeing the domain", k)
		}
	}
	if n := len(b.hv.Changes()); n != changes {
		t.Errorf("changes: %v", b.hv.Changes()[changes:])
	}
}

func TestI04_RedefineKeepsOthersMetadata(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	uuid := b.action("").UUID
	b.hv.AdminSetMetadata(uuid, "urn:other", `<app key="1"/>`)
	b.do(plan.Define)
	xml, err := b.hv.DomainXML(t.Context(), uuid, true)
	if err != nil || !strings.Contains(xml, "urn:other") || !strings.Contains(xml, `key="1"`) {
		t.Errorf("%v\n%s", err, xml)
	}
}

func TestI08_ALostSeedIsMadeAgainTheSame(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	path := b.tree.Paths("p", inst).Seed
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.do(plan.Start)
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v, %d bytes became %d", err, len(before), len(after))
	}

	t.Run("not from other content", func(t *testing.T) {
		b := newBench(t)
		b.do(plan.Prepare, plan.Define)
		if err := os.Remove(b.tree.Paths("p", inst).Seed); err != nil {
			t.Fatal(err)
		}
		a := b.action(plan.Start)
		a.Spec.UserData = spec.Secret("other")
		if err := b.Run(t.Context(), a); err == nil {
			t.Error("started with a seed of another spec")
		}
	})
}

func TestSeedErrorsHaveTheirClass(t *testing.T) {
	b := newBench(t)
	a := b.action(plan.Prepare)
	a.Spec.UserData = make([]byte, seed.MaxUserData+1)
	if err := b.Run(t.Context(), a); observe.ClassOf(err) != observe.Permanent {
		t.Errorf("too much user-data: %v is %s", err, observe.ClassOf(err))
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	if err := b.Run(t.Context(), b.action(plan.Prepare)); err == nil || observe.ClassOf(err) != observe.Transient {
		t.Errorf("no staging directory: %v is %s", err, observe.ClassOf(err))
	}
}

// TestPrepareCutOff: whatever point preparing is cut off at, what is left is
// known to be ours and no incarnation looks complete that is not.
func TestPrepareCutOff(t *testing.T) {
	for n := range 3 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBench(t)
			b.Tree = &cutOff{Tree: b.tree, left: n}
			if err := b.Run(t.Context(), b.action(plan.Prepare)); !errors.Is(err, errCut) {
				t.Fatalf("%v", err)
			}
			incs := b.tree.ScanName("p")
			if n == 0 {
				if len(incs) != 0 {
					t.Errorf("%+v", incs)
				}
				return
			}
			if len(incs) != 1 || incs[0].Record == nil || incs[0].Overlay {
				t.Errorf("%+v", incs)
			}
		})
	}
}

var errCut = errors.New("cut off")

// cutOff lets so many effects through and then fails.
type cutOff struct {
	Tree
	left int
}

func (c *cutOff) next(do func() error) error {
	if c.left == 0 {
		return errCut
	}
	c.left--
	return do()
}

func (c *cutOff) WriteRecord(r observe.Record) error {
	return c.next(func() error { return c.Tree.WriteRecord(r) })
}

func (c *cutOff) WriteSeed(name, instance string, img seed.Image) error {
	return c.next(func() error { return c.Tree.WriteSeed(name, instance, img) })
}

func (c *cutOff) CreateOverlay(ctx context.Context, name, instance string, base observe.Base, size spec.Size) error {
	return c.next(func() error { return c.Tree.CreateOverlay(ctx, name, instance, base, size) })
}

// TestEachStartBeginsTheConsoleLogAnew: what the last run wrote is kept once.
func TestEachStartBeginsTheConsoleLogAnew(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start)
	log := b.tree.Paths("p", inst).Console
	if err := os.WriteFile(log, []byte("first run"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do(plan.Start) // it runs already: the log is in use
	if got, err := os.ReadFile(log); err != nil || string(got) != "first run" {
		t.Fatalf("the log of a running domain was taken away: %q, %v", got, err)
	}
	b.do(plan.Destroy, plan.Start)
	got, err := os.ReadFile(log)
	old, oldErr := os.ReadFile(log + ".0")
	if err != nil || oldErr != nil || len(got) != 0 || string(old) != "first run" {
		t.Errorf("log %q %v, before %q %v", got, err, old, oldErr)
	}
}

// recording notes which definitions were held to the schema.
type recording struct {
	Hypervisor
	validated []bool
}

func (r *recording) Define(ctx context.Context, xml string, validate bool) error {
	r.validated = append(r.validated, validate)
	return r.Hypervisor.Define(ctx, xml, validate)
}

// The schema is asked when a spec is defined for the first time, not when its
// domain is defined again.
func TestADefinitionIsValidatedOncePerSpec(t *testing.T) {
	b := newBench(t)
	rec := &recording{Hypervisor: b.hv}
	b.Hypervisor = rec
	b.do(plan.Prepare, plan.Define, plan.Define)
	other := b.action(plan.Define)
	other.Spec.Memory *= 2
	other.Hash = other.Spec.Hash()
	if err := b.Run(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false, true}, rec.validated); diff != "" {
		t.Errorf("validated (-want +got):\n%s", diff)
	}
}

func TestOnlyWhatLibvirtPausedIsResumed(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define, plan.Start)
	uuid := b.action("").UUID
	b.hv.AdminPause(uuid)
	b.do(plan.Resume)
	if d, _ := b.hv.Domain(uuid); d.Power != observe.PowerPaused {
		t.Errorf("an admin's pause was ended: %+v", d)
	}
	b.hv.AdminResume(uuid)
	b.hv.FillDisk(uuid)
	b.hv.FreeDisk()
	b.do(plan.Resume)
	if d, _ := b.hv.Domain(uuid); d.Power != observe.PowerRunning {
		t.Errorf("not resumed: %+v", d)
	}
}

// Case 108: what libvirt only says in words is found by asking.
func TestCase108AStartOnAnInactiveNetworkSaysSo(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	b.hv.AdminNetwork("default", false)
	err := b.Run(t.Context(), b.action(plan.Start))
	if observe.ClassOf(err) != observe.Transient || !strings.Contains(err.Error(), "virsh net-start default") {
		t.Errorf("%v, class %s", err, observe.ClassOf(err))
	}
	b.hv.AdminNetwork("default", true)
	boom := errors.New("boom")
	b.hv.Fail("Start", 1, boom)
	if err := b.Run(t.Context(), b.action(plan.Start)); !errors.Is(err, boom) {
		t.Errorf("another failure became %v", err)
	}
	b.hv.AdminNetwork("default", false)
	for _, err := range []error{
		&observe.Error{Op: "start", Class: observe.Permanent, Err: boom},
		&observe.Error{Op: "start", Class: observe.Transient, Err: context.DeadlineExceeded},
		&observe.Error{Op: "start", Class: observe.Disconnected, Err: boom},
	} {
		b.hv.Fail("Start", 1, err)
		asked := b.hv.Calls()["NetworkActive"]
		if got := b.Run(t.Context(), b.action(plan.Start)); got != err || b.hv.Calls()["NetworkActive"] != asked {
			t.Errorf("%v became %v, with %d more calls", err, got, b.hv.Calls()["NetworkActive"]-asked)
		}
	}
}
