package virt

import (
	"fmt"
	"testing"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// BenchmarkListDomains lists 1,000 domains in turn with ListDomains and with
// the bare libvirt calls it cannot do without, and gives the best of each and
// their ratio: the best is what a busy machine disturbs least.
func BenchmarkListDomains(b *testing.B) {
	f := start(b, Options{URI: virttest.NodeURI(b)})
	f.await(observe.Connected)
	const n = 1000
	for i := range n {
		uuid := fmt.Sprintf("b0000000-0000-4000-8000-%012d", i)
		metadata := `<metadata><e:proxy xmlns:e="` + virttest.Namespace + `" host="h" name="n"/></metadata>`
		xml := fmt.Sprintf(`<domain type='test'><name>bench-%d</name><uuid>%s</uuid>%s<memory>1024</memory><os><type>hvm</type></os></domain>`, i, uuid, metadata)
		if err := f.Define(b.Context(), xml, false); err != nil {
			b.Fatal(err)
		}
		if err := f.SetAutostart(b.Context(), uuid, true); err != nil {
			b.Fatal(err)
		}
	}
	ours, bare := time.Hour, time.Hour
	for b.Loop() {
		begin := time.Now()
		all, err := f.ListDomains(b.Context())
		if err != nil || len(all) != n {
			b.Fatalf("%d domains, %v", len(all), err)
		}
		ours = min(ours, time.Since(begin))
		begin = time.Now()
		bareList(b, f.raw(), n)
		bare = min(bare, time.Since(begin))
	}
	b.ReportMetric(float64(ours.Microseconds()), "µs/list")
	b.ReportMetric(float64(bare.Microseconds()), "µs/bare")
	b.ReportMetric(float64(ours)/float64(bare), "x-bare")
}

func bareList(b *testing.B, conn *libvirt.Connect, n int) {
	domains, err := conn.ListAllDomains(0)
	if err != nil || len(domains) != n {
		b.Fatalf("%d domains, %v", len(domains), err)
	}
	for i := range domains {
		if _, err := domains[i].GetMetadata(libvirt.DOMAIN_METADATA_ELEMENT, virttest.Namespace, libvirt.DOMAIN_AFFECT_CONFIG); err != nil {
			b.Fatal(err)
		}
		if err := domains[i].Free(); err != nil {
			b.Fatal(err)
		}
	}
}
