//go:build libvirtd

package link

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// settle gives the agent time for what it should not do: a spec is written and
// its label seen, which takes a pass of planning after all earlier events.
func (l *lane) settle(proxy string) {
	l.Helper()
	label := time.Now().Format("150405.000000")
	l.write(proxy, spec("[labels]\nseen = \""+label+"\"\n"))
	l.waitProxy(proxy, "has its new label", func(p status.Proxy) bool { return p.Labels["seen"] == label })
}

// define defines a domain from XML.
func (l *lane) define(xml string) {
	l.Helper()
	const file = "domain.xml"
	if err := os.WriteFile(filepath.Join(l.place.Home, file), []byte(xml), 0o644); err != nil {
		l.Fatal(err)
	}
	l.virsh("define " + filepath.Join(l.place.Inside, file))
}

var metadata = regexp.MustCompile(`(?s)\s*<metadata>.*</metadata>`)

// adminDropsMetadata: what is not marked as ours any more is not touched any
// more, be it on or off.
func adminDropsMetadata(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	ours := l.virsh("dumpxml --inactive " + d)
	bare := metadata.ReplaceAllString(ours, "")
	if bare == ours {
		l.Fatalf("no metadata in\n%s", ours)
	}
	from := l.agent.LogSize()
	lost := func(p status.Proxy) bool {
		return p.Phase == status.PhaseBlocked && is(p, status.Synced, status.False, "MetadataLost")
	}
	l.define(bare)
	l.waitProxy(proxy, "is shown MetadataLost", lost)
	before := l.picture(d)
	l.settle("plain")
	l.same(before, "while its metadata is lost", d)
	l.virsh("destroy " + d)
	l.waitProxy(proxy, "is shown powered off", func(p status.Proxy) bool {
		return lost(p) && is(p, status.Running, status.False, "PoweredOff")
	})
	l.settle("plain")
	l.noActions(from, "while its metadata is lost")
	l.define(ours)
	l.running(proxy)
}

// clone gives a definition like that of a domain: its own UUID, name, NIC and
// disk, and a copy of the metadata.
func (l *lane) clone(domain, name, uuid string) string {
	l.Helper()
	disk := filepath.Join(l.place.Inside, name+".qcow2")
	xml := l.virsh("dumpxml --inactive " + domain)
	for _, r := range []struct{ from, to string }{
		{`<name>.*</name>`, "<name>" + name + "</name>"},
		{`<uuid>.*</uuid>`, "<uuid>" + uuid + "</uuid>"},
		{`<mac address='..:..:..:..`, `<mac address='52:54:00:ab`},
		{`<source file='[^']*/disk/[^']*'`, `<source file='` + disk + `'`},
		{`<log file='[^']*' append='on'/>`, ""},
	} {
		next := regexp.MustCompile(r.from).ReplaceAllString(xml, r.to)
		if next == xml {
			l.Fatalf("no %s in the definition of %s", r.from, domain)
		}
		xml = next
	}
	return xml
}

func adminClones(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	foreign, from, before := l.host().Foreign, l.agent.LogSize(), l.picture(d)
	l.inside("qemu-img", "create", "-q", "-f", "qcow2", filepath.Join(l.place.Inside, "clone.qcow2"), "1G")
	l.inside("chmod", "0666", filepath.Join(l.place.Inside, "clone.qcow2"))
	l.inside("chmod", "o+x", l.place.Inside)
	l.define(l.clone(d, "clone", "7e57c10e-0000-4000-8000-000000000001"))
	counted := func(h status.Host) bool { return h.Foreign == foreign+1 }
	l.wait("the clone is counted as foreign", counted)
	l.virsh("start clone")
	clone := l.picture("clone")
	l.settle("plain")
	l.wait("the clone is counted as foreign", counted)
	l.same(clone, "running", "clone")
	l.virsh("destroy clone")
	l.settle("plain")
	if id := l.domainID("clone"); id != "-" {
		l.Errorf("the clone was started")
	}
	l.same(before, "the original", d)
	l.noActions(from, "for a clone")
	l.virsh("undefine clone")
	l.wait("the clone is forgotten", func(h status.Host) bool { return h.Foreign == foreign })
}

// foreignName: the name of a proxy's domain is taken by a domain that is not
// ours.
func foreignName(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	foreign, from := l.host().Foreign, l.agent.LogSize()
	xml := l.clone("egress-plain", d, "7e57c10e-0000-4000-8000-000000000002")
	l.define(metadata.ReplaceAllString(xml, ""))
	l.wait("it is counted as foreign", func(h status.Host) bool { return h.Foreign == foreign+1 })
	before := l.picture(d)
	l.drop(proxy)
	l.waitProxy(proxy, "is shown as a conflict", func(p status.Proxy) bool {
		return p.Phase == status.PhaseBlocked && is(p, status.Synced, status.False, "Conflict")
	})
	l.settle("plain")
	l.same(before, "while its name is asked for", d)
	l.noActions(from, "for a name that is taken")
	l.virsh("undefine " + d)
	l.running(proxy)
	l.only(proxy)
}

// networkStops: with its network gone a proxy can not start; the others run on
// as they are.
func networkStops(l *lane, proxy string) {
	l.virsh("net-destroy default")
	before := l.picture("egress-plain", "egress-paused")
	from := l.agent.LogSize()
	l.drop(proxy)
	p := l.waitProxy(proxy, "says why it can not start", func(p status.Proxy) bool {
		c, _ := p.Condition(status.Synced)
		return c.Status == status.False && is(p, status.Running, status.False, "PoweredOff") && c.Message != ""
	})
	c, _ := p.Condition(status.Synced)
	l.Logf("phase %s, Synced %s %s: %s; next %s", p.Phase, c.Status, c.Reason, c.Message, p.Next)
	if !strings.Contains(c.Message, "default") {
		l.Errorf("the message does not name the network: %q", c.Message)
	}
	l.virsh("net-start default")
	l.running(proxy)
	l.only(proxy)
	l.same(before, "the others", "egress-plain", "egress-paused")
	l.noActions(from, "while the network was stopped", proxy)
}
