package virttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Namespace is the metadata namespace of the hypervisors that Conform opens.
const Namespace = "https://egress-proxies.example/conformance"

// Conform holds a hypervisor to what consumers rely on. open gives one whose
// link is up, whose metadata namespace is Namespace and that has DefaultNetwork;
// it is fresh for each test, or is cleaned of the suite's domains. Domains found
// there must come through unchanged.
func Conform(t *testing.T, open func(t *testing.T) Handle) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"life of a domain", (*suite).life},
		{"what is done already succeeds", (*suite).idempotence},
		{"absent is ErrNoDomain", (*suite).absence},
		{"redefine", (*suite).redefine},
		{"paused by an admin", (*suite).paused},
		{"undefine while running", (*suite).undefineRunning},
		{"clash of name or UUID", (*suite).clash},
		{"broken XML is permanent", (*suite).brokenXML},
		{"metadata", (*suite).metadata},
		{"metadata while running", (*suite).metadataRunning},
		{"metadata of a transient domain", (*suite).transient},
		{"autostart", (*suite).autostart},
		{"bandwidth", (*suite).bandwidth},
		{"bandwidth while running", (*suite).bandwidthRunning},
		{"bandwidth of a transient domain", (*suite).bandwidthTransient},
		{"managed save", (*suite).managedSave},
		{"undefine with saved state", (*suite).undefineSaved},
		{"list agrees with look-ups", (*suite).listing},
		{"events", (*suite).events},
		{"addresses", (*suite).addresses},
		{"networks", (*suite).networks},
		{"host", (*suite).host},
		{"context", (*suite).ended},
		{"lost link", (*suite).lostLink},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			s := &suite{T: t, ctx: ctx, hv: open(t)}
			s.found = s.snapshot()
			test.run(s)
			s.checkFound()
		})
	}
}

// suite is one test of the suite.
type suite struct {
	*testing.T
	ctx   context.Context
	hv    Handle
	found []snapshot // before the test
}

// snapshot is all that can be read of a domain.
type snapshot struct {
	Domain       observe.RawDomain
	Config, Live string // XML
}

// spec is a domain of the suite.
type spec struct {
	name, uuid, mac string
	metadata        string // whole elements, with their namespaces
	memory          int    // MiB; 0: 64
}

// suiteUUIDs is how the UUIDs of the suite's domains begin.
const suiteUUIDs = "c0000000-0000-4000-8000-"

// domain gives the n-th domain of the suite, removed at the end.
func (s *suite) domain(n int) spec {
	d := spec{
		name: fmt.Sprintf("conform-%d", n),
		uuid: fmt.Sprintf(suiteUUIDs+"%012d", n),
		mac:  fmt.Sprintf("56:00:00:00:00:%02x", n),
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.hv.Destroy(ctx, d.uuid); err != nil && !errors.Is(err, observe.ErrNoDomain) {
			s.Errorf("clean up: %v", err)
		}
		if err := s.hv.Undefine(ctx, d.uuid); err != nil {
			s.Errorf("clean up: %v", err)
		}
	})
	return d
}

func (s *suite) xml(d spec) string {
	_, hypervisor, err := s.hv.Version(s.ctx)
	s.must(err)
	kind := "test"
	if strings.HasPrefix(hypervisor, "QEMU") {
		kind = "qemu" // emulation: works on every host
	}
	if d.memory == 0 {
		d.memory = 64
	}
	return fmt.Sprintf(`<domain type='%s'><name>%s</name><uuid>%s</uuid><metadata>%s</metadata>`+
		`<memory unit='MiB'>%d</memory><os><type>hvm</type></os><devices>`+
		`<interface type='network'><mac address='%s'/><source network='%s'/></interface></devices></domain>`,
		kind, d.name, d.uuid, d.metadata, d.memory, strings.ToUpper(d.mac), DefaultNetwork)
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) define(d spec) {
	s.Helper()
	s.must(s.hv.Define(s.ctx, s.xml(d), false))
}

func (s *suite) list() []observe.RawDomain {
	s.Helper()
	all, err := s.hv.ListDomains(s.ctx)
	s.must(err)
	slices.SortFunc(all, func(a, b observe.RawDomain) int { return strings.Compare(a.UUID, b.UUID) })
	return all
}

// expect looks the domain up and compares it, metadata by meaning.
func (s *suite) expect(d spec, want observe.RawDomain) {
	s.Helper()
	got, err := s.hv.LookupDomain(s.ctx, d.uuid)
	s.must(err)
	want.Name, want.UUID = d.name, d.uuid
	got.Metadata, want.Metadata = s.canonical(got.Metadata), s.canonical(want.Metadata)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("domain differs (-want +got):\n%s", diff)
	}
}

// canonical gives metadata without layout.
func (s *suite) canonical(text string) string {
	s.Helper()
	if text == "" {
		return ""
	}
	e, err := parseElement(text, "")
	s.must(err)
	return e.render("")
}

func (s *suite) snapshot() []snapshot {
	s.Helper()
	var out []snapshot
	for _, d := range s.list() {
		if strings.HasPrefix(d.UUID, suiteUUIDs) {
			continue
		}
		of := spec{uuid: d.UUID}
		out = append(out, snapshot{d, s.domainXML(of, true), s.domainXML(of, false)})
	}
	return out
}

// checkFound compares the domains that were there before.
func (s *suite) checkFound() {
	s.Helper()
	if diff := cmp.Diff(s.found, s.snapshot()); diff != "" {
		s.Errorf("foreign domains changed (-before +after):\n%s", diff)
	}
}
