package virttest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

const (
	testUUID = "0a000000-0000-4000-8000-000000000001"
	testMAC  = "56:00:00:00:00:01"
)

func testXML(name, uuid string) string {
	return fmt.Sprintf(`<domain type='kvm'>
  <name>%s</name>
  <uuid>%s</uuid>
  <metadata>%s<!-- kept by nobody -->%s<no-namespace/></metadata>
  <memory>1024</memory>
  <devices>
    <interface type='network'><mac address='56:00:00:00:00:01'/><source network='default'/></interface>
    <interface type='bridge'><mac address='56:00:00:00:00:02'/><source bridge='br0'/></interface>
    <interface type='network'><source network='default'/></interface>
  </devices>
</domain>`, name, uuid, ours, theirs)
}

// one gives a Fake with one defined domain, its events read.
func one(t *testing.T) *Fake {
	t.Helper()
	f := New(Namespace)
	if got := f.AdminDefine(testXML("a", testUUID)); got != testUUID {
		t.Fatalf("UUID %s", got)
	}
	drain(f)
	return f
}

// drain gives the events that wait.
func drain(f *Fake) (out []observe.Event) {
	for len(f.Events()) > 0 {
		out = append(out, <-f.Events())
	}
	return out
}

func check(t *testing.T, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	opts = append(opts, cmpopts.EquateComparable(netip.Addr{}))
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestFakePrintsItself(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.AdminStart(testUUID)
	f.AdminSetAutostart(testUUID, true)
	f.AdminDefine(`<domain><name>B</name></domain>`)
	lines := strings.Split(f.String(), "\n")
	for i := range lines { // digests are not for people to write down
		fields := strings.Fields(lines[i])
		for j := range fields {
			if k, _, ok := strings.Cut(fields[j], "="); ok && (k == "config" || k == "live") {
				lines[i] = strings.Replace(lines[i], fields[j], k, 1)
			}
		}
	}
	check(t, "print", `B 3b1e9d69-dfbf-5b1d-942a-cbafcca343b7 off config
a 0a000000-0000-4000-8000-000000000001 running config live autostart
  metadata <proxy host="h1" name="a &amp; &#34;b&#34;"><spec>v1:00ff</spec></proxy>
  foreign metadata <vm xmlns="https://other.example/vm" owner="somebody"><note>hands off</note></vm>
  nic 56:00:00:00:00:01 default
  nic 56:00:00:00:00:02 -`, strings.Join(lines[:len(lines)-1], "\n"))
	before := f.String()
	f.AdminDefine(strings.Replace(testXML("a", testUUID), "1024", "2048", 1))
	if f.String() == before {
		t.Error("a change of XML does not show")
	}
}

func TestFakeAdmin(t *testing.T) {
	t.Parallel()
	f := one(t)
	f.AdminRename(testUUID, "b & c")
	f.AdminStart(testUUID)
	f.AdminSetMetadata(testUUID, Namespace, "")
	got, _ := f.Domain(testUUID)
	check(t, "domain", observe.RawDomain{UUID: testUUID, Name: "b & c", Power: observe.PowerRunning, Persistent: true}, got)
	text, err := f.DomainXML(t.Context(), testUUID, true)
	if err != nil || !strings.Contains(text, "<name>b &amp; c</name>") || strings.Contains(text, Namespace) {
		t.Errorf("XML (%v):\n%s", err, text)
	}
	f.AdminUndefine(testUUID)
	if d, ok := f.Domain(testUUID); !ok || d.Persistent {
		t.Errorf("undefined while running: %+v", d)
	}
	f.AdminDestroy(testUUID)
	if _, ok := f.Domain(testUUID); ok {
		t.Error("a transient domain survived its end")
	}
	if got := f.Changes(); len(got) != 0 {
		t.Errorf("an admin's doing counted as ours: %v", got)
	}
}

func TestFakeHostReboot(t *testing.T) {
	t.Parallel()
	f := one(t)
	second := f.AdminDefine(`<domain><name>second</name></domain>`)
	third := f.AdminDefine(`<domain><name>third</name></domain>`)
	f.AdminSetAutostart(second, true)
	f.AdminStart(testUUID)
	f.AdminStart(third)
	f.AdminUndefine(third)
	f.RebootHost()
	a, _ := f.Domain(testUUID)
	b, _ := f.Domain(second)
	_, alive := f.Domain(third)
	if a.Power != observe.PowerOff || b.Power != observe.PowerRunning || alive {
		t.Errorf("after a reboot: %s, %s, transient there: %t", a.Power, b.Power, alive)
	}
}

// What was saved goes on as it was, over a reboot of the host, whatever was
// defined meanwhile; once dropped, the domain boots what is defined.
func TestFakeSavedState(t *testing.T) {
	t.Parallel()
	f, ctx := one(t), t.Context()
	live := func() string {
		text, _ := f.AdminXML(testUUID)
		return text
	}
	f.AdminSave(testUUID) // off: libvirt refuses
	if dropped, err := f.DropSaved(ctx, testUUID); dropped || err != nil {
		t.Errorf("saved while off: %t, %v", dropped, err)
	}
	f.AdminSetAutostart(testUUID, true)
	f.AdminStart(testUUID)
	f.AdminPause(testUUID)
	before := live()
	f.AdminSave(testUUID)
	f.AdminDefine(strings.Replace(testXML("a", testUUID), "1024", "2048", 1))
	if got := f.String(); !strings.Contains(got, " off ") || !strings.Contains(got, " saved=") {
		t.Errorf("saved: %s", got)
	}
	f.RebootHost()
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerPaused || live() != before {
		t.Errorf("restored: %s on\n%s", d.Power, live())
	}
	f.AdminSave(testUUID)
	if dropped, err := f.DropSaved(ctx, testUUID); !dropped || err != nil {
		t.Errorf("dropped: %t, %v", dropped, err)
	}
	if err := f.Start(ctx, testUUID); err != nil {
		t.Error(err)
	}
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerRunning || !strings.Contains(live(), "2048") {
		t.Errorf("booted: %s on\n%s", d.Power, live())
	}
	check(t, "changes", []string{"DropSaved " + testUUID, "Start " + testUUID}, f.Changes())
	f.AdminUndefine(testUUID)
	f.AdminSave(testUUID) // transient: libvirt refuses
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerRunning {
		t.Errorf("a transient domain was saved: %+v", d)
	}
}

func TestFakeGuest(t *testing.T) {
	t.Parallel()
	f, ctx := one(t), t.Context()
	f.AdminStart(testUUID)
	f.IgnoreShutdown(testUUID, true)
	if err := f.Shutdown(ctx, testUUID); err != nil {
		t.Error(err)
	}
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerRunning {
		t.Error("a deaf guest obeyed")
	}
	if _, err := f.Claims(ctx, testUUID, observe.FromAgent); observe.ClassOf(err) != observe.Unavailable {
		t.Errorf("agent not connected: %v", err)
	}
	claim := observe.Claim{MAC: testMAC, Addr: netip.MustParseAddr("192.168.122.2"), Source: observe.FromLease}
	got, err := f.Claims(ctx, testUUID, observe.FromLease)
	check(t, "lease", []observe.Claim{claim}, got)
	f.SetAgent(testUUID, true)
	claim.Source = observe.FromAgent
	got, err2 := f.Claims(ctx, testUUID, observe.FromAgent)
	check(t, "agent", []observe.Claim{claim}, got)
	f.SetClaims(testUUID, observe.FromLease)
	got, err3 := f.Claims(ctx, testUUID, observe.FromLease)
	check(t, "no lease", []observe.Claim(nil), got)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Error(err)
	}
	f.IgnoreShutdown(testUUID, false)
	if err := f.Shutdown(ctx, testUUID); err != nil {
		t.Error(err)
	}
	if d, _ := f.Domain(testUUID); d.Power != observe.PowerOff {
		t.Error("a guest did not obey")
	}
}

func TestNodeURI(t *testing.T) {
	t.Parallel()
	if uri := NodeURI(t, ForeignDomains()...); !strings.HasPrefix(uri, "test:///") {
		t.Error(uri)
	}
}
