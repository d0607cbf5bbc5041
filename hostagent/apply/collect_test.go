package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

const strayInst = "i-00000000000000ff"

// withStray adds an overlay and a seed that lost their record.
func (b *bench) withStray() (overlay string) {
	b.t.Helper()
	p := b.tree.Paths("lost", strayInst)
	write(b.t, p.Overlay, "")
	qemuImg(b.t, "create", "-q", "-f", "qcow2", p.Overlay, "1M")
	write(b.t, p.Seed, "seed")
	return p.Overlay
}

func (b *bench) collectAction() plan.Action {
	return plan.Action{
		Kind: plan.Collect, Bases: []string{b.base.SHA256}, Reason: "unused",
		Strays: []observe.Incarnation{{Name: "lost", Instance: strayInst}},
	}
}

// left tells what of base and stray is there.
func (b *bench) left() (base, stray bool) {
	_, baseErr := os.Stat(b.base.Path)
	_, strayErr := os.Stat(b.tree.Paths("lost", strayInst).Overlay)
	return baseErr == nil, strayErr == nil
}

const foreignUUID = "f0000000-0000-4000-8000-000000000001"

// foreign defines another's domain with the given disks.
func (b *bench) foreign(attrs, disks string) {
	b.hv.AdminDefine(fmt.Sprintf(`<domain type='kvm'%s><name>theirs</name><uuid>%s</uuid><devices>%s</devices></domain>`, attrs, foreignUUID, disks))
}

func diskXML(format, source, more string) string {
	return fmt.Sprintf(`<disk type='file' device='disk'><driver name='qemu' type='%s'/><source %s/>%s<target dev='vda'/></disk>`, format, source, more)
}

func TestCollectRemovesWhatNobodyRefersTo(t *testing.T) {
	b := newBench(t)
	b.withStray()
	b.foreign("", diskXML("raw", "file='/srv/theirs.img'", "")+"<disk type='file' device='cdrom'><driver name='qemu' type='qcow2'/></disk>")
	for range 2 {
		if err := b.Run(t.Context(), b.collectAction()); err != nil {
			t.Fatal(err)
		}
		if base, stray := b.left(); base || stray {
			t.Errorf("left: base %t, stray %t", base, stray)
		}
	}
	p := b.tree.Paths("lost", strayInst)
	want := []string{": removed " + p.Overlay + ": unused", ": removed " + p.Seed + ": unused", ": removed " + b.base.Path + ": unused"}
	if d := cmp.Diff(want, b.notes); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	if c := b.hv.Changes(); len(c) != 0 {
		t.Errorf("domains changed: %v", c)
	}
}

// Whoever refers to a file, in whatever way, keeps it.
func TestI04_CollectAsksEverybodysDomains(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		refer       func(b *bench, overlay string)
		base, stray bool // is left
	}{
		"base as a disk": {func(b *bench, _ string) { b.foreign("", diskXML("raw", "file='"+b.base.Path+"'", "")) }, true, false},
		"base by another path": {func(b *bench, _ string) {
			b.foreign("", diskXML("raw", "file='/x/"+filepath.Base(b.base.Path)+"'", ""))
		}, true, false},
		"base in a chain shown": {func(b *bench, _ string) {
			b.foreign(" id='7'", diskXML("qcow2", "file='/srv/none.qcow2'", "<backingStore type='file'><source file='"+b.base.Path+"'/></backingStore>"))
		}, true, false},
		"base in a chain not shown": {func(b *bench, _ string) {
			qemuImg(b.t, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", b.base.Path, dir+"/low.qcow2")
			qemuImg(b.t, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", dir+"/low.qcow2", dir+"/high.qcow2")
			b.foreign("", diskXML("qcow2", "file='"+dir+"/high.qcow2'", ""))
		}, true, false},
		"base escaped": {func(b *bench, _ string) {
			b.foreign("", fmt.Sprintf("<x><!-- -->&#x%x;%s</x>", b.base.SHA256[0], b.base.SHA256[1:]))
		}, true, false},
		"base by our own claim": {func(b *bench, _ string) {
			b.do(plan.Prepare, plan.Define)
			if err := b.tree.RemoveIncarnation("p", inst); err != nil {
				b.t.Fatal(err)
			}
		}, true, false},
		"base by a record": {func(b *bench, _ string) { b.do(plan.Prepare) }, true, false},
		"overlay":          {func(b *bench, overlay string) { b.foreign("", diskXML("qcow2", "file='"+overlay+"'", "")) }, false, true},
		"seed": {func(b *bench, _ string) {
			b.foreign("", diskXML("raw", "file='"+b.tree.Paths("lost", strayInst).Seed+"'", ""))
		}, false, true},
		"snapshot of the overlay": {func(b *bench, overlay string) {
			b.foreign(" id='7'", diskXML("qcow2", "file='"+strings.TrimSuffix(overlay, "qcow2")+"snap1'", "<backingStore/>"))
		}, false, true},
		"running on it, configured for another": {func(b *bench, overlay string) {
			b.foreign("", diskXML("raw", "file='"+b.base.Path+"'", ""))
			b.hv.AdminStart(foreignUUID)
			b.foreign("", diskXML("qcow2", "file='"+overlay+"'", ""))
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.refer(b, b.withStray())
			before := b.hv.String()
			if err := b.Run(t.Context(), b.collectAction()); err != nil {
				t.Error(err)
			}
			if base, stray := b.left(); base != c.base || stray != c.stray {
				t.Errorf("left: base %t, stray %t; want %t, %t", base, stray, c.base, c.stray)
			}
			if d := cmp.Diff(before, b.hv.String()); d != "" {
				t.Errorf("domains changed:\n%s", d)
			}
		})
	}
}

// A disk whose chain can not be seen may stand on any base, and not on a stray
// that nobody names.
func TestI04_ADiskThatCanNotBeReadKeepsTheBases(t *testing.T) {
	for name, source := range map[string]string{
		"missing":    "file='/none/x.qcow2'",
		"no image":   "file='/dev/zero'",
		"in a pool":  "pool='images' volume='x.qcow2'",
		"on network": "protocol='nbd' name='x'",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.withStray()
			b.foreign("", diskXML("qcow2", source, "<backingStore/>")) // its owner's word
			err := b.Run(t.Context(), b.collectAction())
			if base, stray := b.left(); err == nil || !strings.Contains(err.Error(), "theirs") || !base || stray {
				t.Errorf("%v; left: base %t, stray %t", err, base, stray)
			}
			// What libvirt itself saw of the chain settles it.
			b.foreign(" id='7'", diskXML("qcow2", source, "<backingStore/>"))
			b.hv.AdminStart(foreignUUID)
			b.foreign("", diskXML("qcow2", source, ""))
			err = b.Run(t.Context(), b.collectAction())
			if base, _ := b.left(); err != nil || base {
				t.Errorf("running: %v; left: base %t", err, base)
			}
		})
	}
}

func TestI01_CollectNeedsAllDomains(t *testing.T) {
	for _, method := range []string{"ListDomains", "DomainXML"} {
		b := newBench(t)
		b.withStray()
		b.foreign("", "")
		b.hv.Fail(method, 1, &observe.Error{Op: "x", Class: observe.Transient, Err: errors.New("x")})
		err := b.Run(t.Context(), b.collectAction())
		if base, stray := b.left(); err == nil || !base || !stray {
			t.Errorf("%s failed: %v; left: base %t, stray %t", method, err, base, stray)
		}
	}
	b := newBench(t)
	b.withStray()
	b.foreign("", "")
	b.Hypervisor = vanishing{b.Hypervisor} // gone since it was listed
	err := b.Run(t.Context(), b.collectAction())
	if base, stray := b.left(); err != nil || base || stray {
		t.Errorf("a domain went: %v; left: base %t, stray %t", err, base, stray)
	}
}

// vanishing has only domains that are gone when they are asked for.
type vanishing struct{ Hypervisor }

func (vanishing) DomainXML(context.Context, string, bool) (string, error) {
	return "", &observe.Error{Op: "read", Class: observe.Transient, Err: observe.ErrNoDomain}
}

// asked notes whose chains were asked for.
type asked struct {
	Tree
	files []string
}

func (a *asked) StandsOn(ctx context.Context, file, format string) ([]string, error) {
	a.files = append(a.files, filepath.Base(file)+" "+format)
	return a.Tree.StandsOn(ctx, file, format)
}

// Only what nothing else tells is examined, and nothing more after the first
// doubt.
func TestCollectExaminesLittle(t *testing.T) {
	b := newBench(t)
	tree := &asked{Tree: b.tree}
	b.Tree = tree
	b.do(plan.Prepare, plan.Define)
	ok := filepath.Join(t.TempDir(), "ok")
	qemuImg(t, "create", "-q", "-f", "qcow2", ok, "1M")
	b.foreign("", diskXML("raw", "file='/raw'", "")+diskXML("", "file='/guess'", "")+
		diskXML("qcow2", "file='"+ok+"'", "")+diskXML("vmdk", "file='/none'", "")+diskXML("qcow2", "file='/later'", ""))
	if err := b.Run(t.Context(), b.collectAction()); err != nil {
		t.Error(err) // the proxy's record settles it
	}
	if want := []string{"ok qcow2", "none vmdk"}; !slices.Equal(want, tree.files) {
		t.Errorf("examined %v, want %v", tree.files, want)
	}
	if _, ok := b.hv.Domain(domxml.DomainUUID(hostID, "p")); !ok {
		t.Error("the proxy's domain is gone")
	}
}
