//go:build web

package web

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestI02_Revisions: a server that plays back an old manifest, or another of the
// same revision, is not believed, by an agent that was restarted either; a
// higher revision ends it, or an operator's order.
func TestI02_Revisions(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b", "c")...)
	l.publish(plains("a", "b", "c")...) // what is pulled is at least 101
	was := l.runs("a", "b", "c")
	l.asks("the newest is known", 1, answered(304))

	at := func(revision int64, names ...string) {
		t.Helper()
		o := l.manifest(plains(names...))
		o["revision"] = revision
		l.publishDocument(o)
	}
	at(l.revision-1, "a", "b")
	l.trouble("rollback", "revision", fmt.Sprint(l.revision-1), fmt.Sprint(l.revision), "manifest reset")
	l.unchanged("rollback", was)
	at(l.revision, "a", "b")
	l.trouble("equivocation", "revision", fmt.Sprint(l.revision), "another content")
	l.unchanged("equivocation", was)
	l.stop()
	l.start()
	l.trouble("equivocation, to an agent that was restarted", "another content")
	again := l.runs("a", "b", "c")
	at(l.revision+5, "a", "b", "c")
	l.healed("equivocation")
	l.unchanged("a higher revision", again)

	at(1, "a", "b", "c", "d")
	l.trouble("rollback", "manifest reset")
	l.order("manifest", "reset", "--yes")
	l.healed("rollback, by order")
	again["d"] = l.runs("a", "b", "c", "d")["d"]
	l.unchanged("reset", again)
}

// TestI06_Case130_Emptied: to empty a host takes a word in the manifest and
// another of an operator.
func TestI06_Case130_Emptied(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b", "c")...)
	was := l.runs("a", "b", "c")
	l.publish()
	l.trouble("an empty list", "allow_empty")
	l.asks("and again", 2, func(a Access) bool { return a.Method == "GET" })
	l.unchanged("an empty list", was)

	l.revision++
	o := l.manifest(plains())
	o["allow_empty"] = true
	l.publishDocument(o)
	digest := l.held("deletion", "a", "b", "c")
	l.unchanged("an empty list that is meant", was)
	l.order("release", digest)
	l.runs()
}

// TestI06_Shrunk: a manifest of a third of the proxies deletes none of the
// others before an operator has said so, over a restart too; put right, nothing
// has happened.
func TestI06_Shrunk(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b", "c")...)
	was := l.runs("a", "b", "c")
	l.publish(plains("a")...)
	l.held("deletion", "b", "c")
	l.unchanged("a third", was)
	l.stop()
	l.start()
	digest := l.held("deletion", "b", "c")
	l.publish(plains("a", "b", "c")...)
	l.wait("nothing is held", func(h status.Host) bool { return len(h.Holds) == 0 })
	was = l.runs("a", "b", "c")
	l.publish(plains("a")...)
	if now := l.held("deletion", "b", "c"); now != digest {
		t.Logf("the digest was %s, is %s", digest, now)
	}
	l.order("release", l.held("deletion", "b", "c"))
	l.runs("a")
	l.unchanged("released", picture{"a": was["a"]})
}

// TestBoot_Cached: an agent that starts without a server runs the manifest that
// was taken last, on the disks that are there, and says where it has it from.
func TestBoot_Cached(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	l.stop()
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	l.start() // libvirt's test driver has forgotten all VMs
	again := l.runs("a", "b")
	l.sameDisks(was, again)
	l.trouble("nginx is away", "refused")
	fromCache := func(h status.Host) bool { return h.Manifest.FromCache && h.Manifest.Revision == l.revision }
	l.wait("status says that the manifest is from the cache", fromCache)
	if out, _ := l.agent.CLI("status"); !strings.Contains(out, "kept from before") {
		t.Errorf("status does not say that the manifest is from the cache:\n%s", out)
	}
	l.unchanged("nginx is away", again)
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	l.healed("nginx's absence")
	l.wait("the server has confirmed it", func(h status.Host) bool { return !fromCache(h) })
	l.unchanged("nginx is back", again)
}

// TestHiddenChange: nginx makes its entity tag of time and size. A change that
// leaves both is found by the first request after a start, which has no tag.
func TestHiddenChange(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	l.runs("a", "b")
	file := l.Manifest(host)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	l.publish(plains("a", "c")...)
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	l.asks("the tag hides the change", 2, answered(304))
	l.stop()
	l.start()
	l.runs("a", "c")
}

// sameDisks tells when VMs are not on the disks they had.
func (l *lane) sameDisks(was, now picture) {
	l.Helper()
	for name := range was {
		var a, b [2]string
		fmt.Sscan(was[name], &a[0], &a[1])
		fmt.Sscan(now[name], &b[0], &b[1])
		if a != b {
			l.Errorf("%s: was %s, is %s", name, was[name], now[name])
		}
	}
}
