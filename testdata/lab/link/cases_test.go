//go:build libvirtd

package link

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program"
)

// TestCases047_075_093 has three proxies in trouble, each of its own kind, and
// one that none of it may touch.
func TestCases047_075_093(t *testing.T) {
	l := beginLane(t, setting{resync: "5s"}, program.Idle, program.Off)
	l.start()
	for _, name := range []string{"steady", "locked", "leased"} {
		l.write(name, specOf(program.Idle, ""))
	}
	l.running("steady", "locked", "leased")
	from, before := l.agent.LogSize(), l.picture("egress-steady", "egress-leased")
	l.write("dies", specOf(program.Off, ""))

	// Case 75: QEMU may not open the overlay.
	overlay := l.overlay("locked")
	l.inside("sh", "-ec", `chown root:root "$1"; chmod 0600 "$1"`, "sh", overlay)
	l.virsh("destroy egress-locked")
	p := l.waitProxy("locked", "says what is wrong", func(p status.Proxy) bool {
		c, _ := p.Condition(status.Synced)
		return c.Status == status.False && strings.Contains(c.Message, filepath.Base(overlay))
	})
	c, _ := p.Condition(status.Synced)
	l.Logf("locked: %s: %s; next: %s", c.Reason, c.Message, p.Next)

	// Case 47: a guest whose client-id changed has two leases; the later counts.
	l.leases("leased", map[string]time.Duration{"192.168.122.50": 10 * time.Minute, "192.168.122.9": time.Hour, "192.168.122.200": time.Minute})
	p = l.waitProxy("leased", "has an address", func(p status.Proxy) bool { return is(p, status.Addressed, status.True, "FromLease") })
	if len(p.Addresses) != 1 || p.Addresses[0].Address.String() != "192.168.122.9" {
		t.Errorf("leased: %+v", p.Addresses)
	}

	// Case 93: one that dies soon after each start is started ever later.
	p = l.waitProxy("dies", "is in a crash loop", func(p status.Proxy) bool { return is(p, status.Synced, status.True, "CrashLoop") })
	c, _ = p.Condition(status.Synced)
	l.Logf("dies: %s", c.Message)

	l.inside("sh", "-ec", `chown "$2":libvirt-qemu "$1"; chmod 0660 "$1"`, "sh", overlay, "egress-hostagent")
	l.running("locked")
	l.only("locked")
	l.noActions(from, "to those beside", "locked", "dies", "") // "": the images
	l.same(before, "beside those in trouble", "egress-steady", "egress-leased")
	l.end()
}

// overlay is the one overlay of a proxy.
func (l *lane) overlay(proxy string) string {
	l.Helper()
	for _, f := range l.files(proxy) {
		if strings.HasSuffix(f, ".qcow2") {
			return f
		}
	}
	l.Fatalf("%s has no overlay", proxy)
	return ""
}

// leases writes what libvirt's lease helper keeps of dnsmasq's leases: one for
// each address, with the time it has left.
func (l *lane) leases(proxy string, left map[string]time.Duration) {
	l.Helper()
	var entries []string
	for addr, d := range left {
		entries = append(entries, fmt.Sprintf(`{"ip-address": %q, "mac-address": %q, "client-id": "ff:%02x", "expiry-time": %d}`,
			addr, l.mac(proxy), len(entries), time.Now().Add(d).Unix()))
	}
	path := filepath.Join(filepath.Dir(l.place.Home), "lib/dnsmasq/virbr0.status")
	if err := os.WriteFile(path, []byte("["+strings.Join(entries, ",\n")+"]\n"), 0o644); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.Remove(path) })
}
