//go:build web

package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestPull is a manifest's whole life, from the document that docs/protocol.md
// shows: what is published runs, each edit changes what it is about and nothing
// else, and an unchanged file costs a 304.
func TestPull(t *testing.T) {
	l := startLane(t, setting{})
	l.site.publish(t, host, documented(t))
	first := l.runs("scraper-eu-1", "scraper-eu-2")
	l.wait("the label is there", func(h status.Host) bool {
		p := proxyOf(h, "scraper-eu-1")
		return p.Labels["region"] == "eu" && p.Origin == "manifest"
	})
	l.asks("a 304 to the tag that was given out", 2, func(a Access) bool { return a.Status == 304 && a.ETag != "-" })
	l.unchanged("304", first)
	if before := l.Accesses()[0]; before.Client != "CN="+host || before.Method != "GET" {
		t.Errorf("the first request: %+v", before)
	}

	l.publish(plain("scraper-eu-1"), plain("scraper-eu-2"), plain("third"))
	three := l.runs("scraper-eu-1", "scraper-eu-2", "third")
	if three["scraper-eu-1"] == first["scraper-eu-1"] {
		// Its user-data was another: the template's.
		l.wait("another incarnation", func(h status.Host) bool { return pictureOf(h)["scraper-eu-1"] != first["scraper-eu-1"] })
		three = l.runs("scraper-eu-1", "scraper-eu-2", "third")
	}
	l.publish(plain("scraper-eu-1").with("labels", object{"region": "us"}), plain("scraper-eu-2"), plain("third"))
	l.wait("the label changes", func(h status.Host) bool { return proxyOf(h, "scraper-eu-1").Labels["region"] == "us" })
	l.unchanged("a label", three)

	l.publish(plain("scraper-eu-1"), plain("scraper-eu-2"))
	two := l.runs("scraper-eu-1", "scraper-eu-2")
	delete(three, "third")
	l.unchanged("another was removed", three)

	l.publish(plain("scraper-eu-1").with("memory", "320MiB").with("cpus", 1), plain("scraper-eu-2"))
	l.trouble("a broken edit", "proxies[0]", "memory", "revision")
	l.unchanged("a broken edit", two)
}

// TestI02_ManifestIsGone: a file that is removed, that nginx can not read, or
// that is another host's deletes nothing, whatever the answer is called.
func TestI02_ManifestIsGone(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	file := l.Manifest(host)
	away := filepath.Join(filepath.Dir(file), "away")

	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(file, away)
	l.trouble("no file", "404")
	l.asks("and again", 3, answered(404))
	l.unchanged("404", was)
	move(away, file)
	l.healed("404")

	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	l.trouble("a file that nobody may read", "403")
	l.asks("and again", 2, answered(403))
	l.unchanged("403", was)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	l.healed("403")

	other := l.manifest(plains("c"))
	other["host"] = "kvm2"
	l.publishDocument(other)
	if said := l.trouble("another host's", "kvm2", "kvm1"); strings.Contains(said, "404") {
		t.Errorf("the reason is not the last one: %s", said)
	}
	l.unchanged("another host's manifest", was)
	l.publish(plains("a", "b")...)
	l.healed("another host's manifest")
	l.unchanged("all over", was)
}

// TestI02_NginxIsAway: a server that stands still costs nothing but freshness.
func TestI02_NginxIsAway(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	l.trouble("nginx is away", "refused")
	// Files of the directory are a source of their own.
	if err := l.agent.Write("local.toml", localSpec); err != nil {
		t.Fatal(err)
	}
	was["local"] = l.runs("a", "b", "local")["local"]
	l.unchanged("nginx is away", was)
	l.publish(plains("a", "b", "c")...)
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	l.healed("nginx's absence")
	was["c"] = l.runs("a", "b", "c", "local")["c"]
	l.unchanged("nginx is back", was)
}
