//go:build libvirtd

package link

import (
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// TestI14_IdleLinkStaysUpAndBringsEvents: nothing is asked of libvirt for many
// keepalives; the connections are still the same ones, and an event comes by
// itself.
func TestI14_IdleLinkStaysUpAndBringsEvents(t *testing.T) {
	l := startLane(t)
	l.drop("idle")
	l.running("idle")
	before, first := l.clients(), l.host().Link
	ticks := l.ticks("egress-idle")
	quiet := soak(15*time.Second, 10*time.Minute)
	<-time.After(quiet)
	used := l.ticks("egress-idle") - ticks
	t.Logf("idle for %s: connections %v, QEMU used %d ms of processor time", quiet, before, used*10)
	if after := l.clients(); !slices.Equal(before, after) || len(after) != 3 {
		t.Errorf("connections %v, were %v; want the same three", after, before)
	}
	if now := l.host().Link; now.Connects != first.Connects || now.Replaced != 0 || now.Leaked != 0 {
		t.Errorf("link %+v, was %+v", now, first)
	}

	l.virsh("suspend egress-idle")
	began := time.Now()
	l.waitProxy("idle", "is seen paused", paused)
	t.Logf("paused by an admin, seen after %s", time.Since(began).Round(time.Millisecond))
	l.end()
}

func paused(p status.Proxy) bool { return is(p, status.Running, status.False, "Paused") }

// ticks is the processor time that a domain's QEMU has used.
func (l *lane) ticks(domain string) int64 {
	l.Helper()
	n, err := kit.CPU(l.qemu()[domain])
	if err != nil {
		l.Fatal(err)
	}
	return n
}
