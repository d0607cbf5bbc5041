package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// BenchmarkNoopPass measures a whole pass of the agent in which nothing is to
// be done: list, tree scan, planning over all proxies. Its ratio to the bare
// libvirt loop is printed by "make bench".
func BenchmarkNoopPass(b *testing.B) {
	const n = 1000
	h := newHall(b)
	w := wire(h.cfg, testIdentity, hostagent.Kept{}, nil, nil)
	if err := w.tree.InitMarker(); err != nil {
		b.Fatal(err)
	}
	core := hostagent.NewCore(w.parts.Settings, hostagent.Kept{Memory: plan.Memory{KeptHost: plan.KeptHost{TreeKnown: true}}})
	snap := source.Snapshot{Origin: source.OriginDir, Seq: 1, Read: time.Now(), Synced: true, Entries: map[string]source.Entry{}}
	for i := range n {
		s := h.settle(b, w, fmt.Sprintf("p%d", i))
		snap.Entries[s.Name] = source.Entry{Name: s.Name, Spec: &s, Hash: s.Hash()}
	}
	core.Step(time.Now(), hostagent.SourceRead{Snapshot: snap})
	<-time.After(2500 * time.Millisecond) // until the tree has come to rest, as between resyncs
	w.tree.Scan()
	best := time.Hour
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		ds, err := h.conn.ListDomains(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		effects := core.Step(began, hostagent.DomainsListed{Domains: ds}, hostagent.TreeScanned{Tree: w.tree.Scan()})
		best = min(best, time.Since(began))
		for _, ef := range effects {
			if a, acts := ef.(hostagent.RunAction); acts {
				b.Fatalf("the pass is no no-op: %+v", a.Action)
			}
		}
	}
	b.ReportMetric(float64(best.Microseconds()), "µs/pass")
}

// settle puts a proxy into tree and libvirt as the agent leaves it. The overlay
// is an empty file: a scan only sees that it is there.
func (h *hall) settle(b *testing.B, w wired, name string) spec.Spec {
	b.Helper()
	s := spec.Spec{
		Name: name, Image: spec.Image{Key: "debian", SHA256: h.cfg.Catalog.Images["debian"].SHA256, Format: "qcow2"},
		CPUs: 1, Memory: 256 << 20, Port: 3128, GuestAgent: true, Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}},
		Probe: spec.Probe{Type: spec.ProbeTCP}, UserData: spec.Secret("#cloud-config\n"),
	}
	const instance = "i-0000000000000001"
	uuid := domxml.DomainUUID("host-1", name)
	rec := observe.Record{
		Version: observe.RecordVersion, Host: "host-1", Name: name, UUID: uuid, Instance: instance, Origin: source.OriginDir,
		SpecHash: s.Hash().String(), SeedHash: s.SeedInput(instance, nil).ContentHash(), Base: s.Image.SHA256, Format: "qcow2",
		SeedFile: s.Image.SHA256, SeedSize: 1 << 16, Created: time.Now(),
	}
	paths := w.tree.Paths(name, instance)
	xml, err := domxml.Generate(domxml.Input{
		DomainName: domxml.DomainName(name), Spec: s, Acceleration: domxml.TCG,
		Owner:   observe.Ownership{Host: "host-1", Name: name, Instance: instance, Origin: source.OriginDir, Spec: s.Hash(), Seed: rec.SeedHash, Base: rec.Base},
		Overlay: paths.Overlay, Base: observe.Base{Path: "/base", Format: "qcow2"}, Seed: paths.Seed, Console: paths.Console,
	})
	for _, step := range []func() error{
		func() error { return err },
		func() error { return w.tree.WriteRecord(rec) },
		func() error { return os.WriteFile(paths.Overlay, nil, 0o660) },
		func() error { return os.WriteFile(paths.Seed, make([]byte, rec.SeedSize), 0o640) },
		func() error { return h.conn.Define(b.Context(), xml, false) },
		func() error { return h.conn.SetAutostart(b.Context(), uuid, true) },
		func() error { return h.conn.Start(b.Context(), uuid) },
	} {
		if err := step(); err != nil {
			b.Fatal(err)
		}
	}
	return s
}
