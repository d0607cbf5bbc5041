package domxml

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func input(a Acceleration) Input {
	const name = "scraper-eu-1"
	return Input{
		DomainName: DomainName(name),
		Spec: spec.Spec{
			Name: name, CPUs: 2, Memory: 2 << 30,
			Networks: []spec.NIC{{Network: spec.Network{Network: "default"}}, {Network: spec.Network{Bridge: "br0"}}},
		},
		Owner: observe.Ownership{
			Host: "host-1", Name: name, Instance: "i-0123456789abcdef", Origin: "dir",
			Spec: spec.Hash{Version: 1, Incarnation: "aa", Machine: "bb"}, Seed: "1:cc", Base: "dd",
		},
		Acceleration: a,
		Overlay:      "/tree/disk/scraper-eu-1.i-0123456789abcdef.qcow2",
		Base:         observe.Base{SHA256: "dd", Path: "/tree/base/dd.qcow2", Format: "qcow2"},
		Seed:         "/tree/seed/scraper-eu-1.i-0123456789abcdef.iso",
		Console:      "/tree/console/scraper-eu-1.log",
	}
}

func TestGenerateGolden(t *testing.T) {
	for name, in := range map[string]Input{"kvm": input(KVM), "tcg": input(TCG), "nics": nics()} {
		got, err := Generate(in)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".xml")
		if *update {
			if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got+"\n"); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestGenerateRefusesPathsLibvirtRejects(t *testing.T) {
	for _, bad := range []string{`/tree/"x`, "/tree/x\n", "/tree/'x"} {
		in := input(KVM)
		in.Seed = bad
		if _, err := Generate(in); err == nil {
			t.Errorf("path %q accepted", bad)
		}
	}
}

func TestOwnershipRoundTrip(t *testing.T) {
	in := input(KVM)
	in.Owner.Origin = `odd "<&>' origin`
	xml, err := Generate(in)
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(xml, "<egress:proxy")
	end := strings.Index(xml, "</egress:proxy>") + len("</egress:proxy>")
	for _, text := range []string{xml[start:end], mustEncode(t, in.Owner)} {
		got, err := DecodeOwnership(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(in.Owner, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func mustEncode(t *testing.T, o observe.Ownership) string {
	t.Helper()
	s, err := EncodeOwnership(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestI04_IncompleteClaimIsNotOurs(t *testing.T) {
	for _, text := range []string{
		"", "<proxy/>", "<proxy host='h' name='n'/>", "<proxy host='h' name='n' instance='i' spec='x'/>",
		"<other host='h' name='n' instance='i' spec='1:a:b'/>", "<proxy host='h'", strings.Repeat("x", maxMetadata+1),
		"<o:proxy xmlns:o='urn:other' host='h' name='n' instance='i' spec='1:a:b'/>",
	} {
		if o, err := DecodeOwnership(text); err == nil {
			t.Errorf("%.60q accepted as %+v", text, o)
		}
	}
}

func TestI04_ForeignMetadataIsKept(t *testing.T) {
	first, err := Generate(input(KVM))
	if err != nil {
		t.Fatal(err)
	}
	const other = `<a:app xmlns:a="urn:a"><a:x y="1">t &amp; t</a:x></a:app>`
	const second = `<b:app xmlns:b="urn:b"/>`
	edited := strings.Replace(first, "<metadata>", "<metadata>"+other, 1)
	edited = strings.Replace(edited, "</metadata>", "\n"+second+"</metadata>", 1)
	got, err := ForeignMetadata(edited)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{other, second}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	in := input(KVM)
	in.Foreign = got
	again, err := Generate(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range got {
		if !strings.Contains(again, want) {
			t.Errorf("redefine lost %s", want)
		}
	}
}

// TestIdentityGolden pins what finds a proxy's domain again. It never changes.
func TestIdentityGolden(t *testing.T) {
	if got, want := DomainUUID("host-1", "scraper-eu-1"), goldenUUID; got != want {
		t.Errorf("UUID %s, want %s", got, want)
	}
	if got, want := MAC("host-1", "scraper-eu-1", 0), goldenMAC; got != want {
		t.Errorf("MAC %s, want %s", got, want)
	}
}

func TestCase036_MACsDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for h := range 10 {
		for p := range 5000 {
			id := fmt.Sprintf("host-%d/proxy-%d", h, p)
			mac := MAC(fmt.Sprintf("host-%d", h), fmt.Sprintf("proxy-%d", p), 0)
			if other, dup := seen[mac]; dup {
				t.Fatalf("%s and %s share %s", id, other, mac)
			}
			seen[mac] = id
			if !strings.HasPrefix(mac, "56:") || len(mac) != 17 {
				t.Fatalf("%s: %s is not a locally administered unicast address", id, mac)
			}
		}
	}
	if MAC("a", "bc", 0) == MAC("ab", "c", 0) || MAC("a", "b", 0) == MAC("a", "b", 1) {
		t.Error("different inputs give one MAC")
	}
}

func TestSeedIsNeverOnSATA(t *testing.T) {
	xml, err := Generate(input(TCG))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"sata", "cdrom", `bus="ide"`} {
		if strings.Contains(xml, bad) {
			t.Errorf("the document has %q", bad)
		}
	}
}

func TestBootCheck(t *testing.T) {
	xml, err := BootCheck("n", "11111111-2222-3333-4444-555555555555", TCG, "/tree/.x.raw")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(xml, `type="qemu"`) || strings.Contains(xml, "metadata") {
		t.Errorf("unexpected document:\n%s", xml)
	}
	if s := BootDisk(); len(s)%(1<<20) != 0 || s[510] != 0x55 || s[511] != 0xaa {
		t.Error("not a boot sector")
	}
}

const (
	goldenUUID = "9889f1eb-077c-5540-afd8-59945f3b50c5"
	goldenMAC  = "56:60:3f:5f:cf:d2"
)
