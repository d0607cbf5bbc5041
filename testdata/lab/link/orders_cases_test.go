//go:build libvirtd

package link

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

func pausesAndResumes(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	id, inst, files, from := l.domainID(d), l.instance(proxy), l.files(proxy), l.agent.LogSize()
	stranger := []string{"setpriv", "--reuid=daemon", "--regid=" + kit.User, "--clear-groups", "--"}
	l.refuses("add the user to admins in [control]", stranger, "pause", proxy)
	if code, out := l.command(stranger, "list"); code != 0 {
		l.Errorf("who may not order may not look either: exit code %d: %s", code, out)
	}
	l.running(proxy) // and is not paused
	l.orders("pause", proxy)
	l.virsh("destroy " + d)
	l.waitProxy(proxy, "is off and paused", func(p status.Proxy) bool {
		return p.Phase == status.PhasePaused && is(p, status.Running, status.False, "PoweredOff")
	})
	l.settle("plain")
	if now := l.domainID(d); now != "-" {
		l.Errorf("the agent started what is paused")
	}
	l.noActions(from, "while it is paused")
	l.orders("resume", proxy)
	l.restarted(proxy, id)
	l.sameFiles(proxy, inst, files)
}

func recreates(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	inst, overlay, who, pid := l.instance(proxy), l.overlay(proxy), l.who(d), l.qemu()[d]
	l.orders("recreate", proxy, "--yes")
	l.waitProxy(proxy, "runs anew", func(p status.Proxy) bool { return runs(p) && p.Instance != inst })
	l.only(proxy)
	if now := l.overlay(proxy); now == overlay || !strings.Contains(l.virsh("dumpxml "+d), now) {
		l.Errorf("the tree has %s, before %s, and the domain:\n%s", now, overlay, l.virsh("domblklist "+d))
	}
	if now := l.who(d); now != who {
		l.Errorf("UUID and MAC %v, were %v", now, who)
	}
	if now := l.qemu()[d]; now == pid {
		l.Errorf("the same QEMU runs, %d", now)
	}
}

var macAddress = regexp.MustCompile(`<mac address='([^']*)'/>`)

// who is a domain's UUID and the MAC of its NIC.
func (l *lane) who(domain string) (id struct{ UUID, MAC string }) {
	l.Helper()
	found := macAddress.FindStringSubmatch(l.virsh("dumpxml --inactive " + domain))
	if found == nil {
		l.Fatalf("%s has no NIC", domain)
	}
	id.UUID, id.MAC = l.virsh("domuuid "+domain), found[1]
	return id
}

// adopts: however the metadata was lost, it comes back as it was and the guest
// runs on.
func adopts(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	before := l.picture(d)
	for how, loses := range map[string]func(){
		"redefine":       func() { l.define(metadata.ReplaceAllString(l.virsh("dumpxml --inactive "+d), "")) },
		"virsh metadata": func() { l.virsh("metadata " + d + " --uri " + domxml.Namespace + " --remove --config --live") },
	} {
		l.refuses("nothing to adopt", nil, "adopt", proxy, "--yes")
		loses()
		l.waitProxy(proxy, "is shown MetadataLost", func(p status.Proxy) bool {
			return is(p, status.Synced, status.False, "MetadataLost")
		})
		l.orders("adopt", proxy, "--yes")
		l.running(proxy)
		l.same(before, "adopted after "+how, d)
	}
	l.only(proxy)
}

// abandons: the VM is left as it is, for good.
func abandons(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	files, before := l.files(proxy), l.picture(d)
	l.orders("abandon", proxy, "--yes")
	conflict := func(p status.Proxy) bool { return is(p, status.Synced, status.False, "Conflict") }
	l.waitProxy(proxy, "is shown as a conflict", conflict)
	// What runs keeps its copy until it is off.
	l.await(patience, "our metadata is gone", func() bool {
		return !strings.Contains(l.virsh("dumpxml "+d), domxml.Namespace)
	})
	left := l.picture(d)
	if diff := cmp.Diff(before.bare(), left.bare()); diff != "" {
		l.Errorf("more than its metadata changed (-before +after):\n%s", diff)
	}
	l.crash()
	l.waitProxy(proxy, "is still shown as a conflict", conflict)
	l.settle("plain")
	l.same(left, "left alone, after a restart", d)
	l.freesName(proxy)
	l.leftIn(proxy, files)
}

// freesName renames an abandoned VM, as an admin would: a new one comes up.
func (l *lane) freesName(proxy string) {
	l.Helper()
	d := domxml.DomainName(proxy)
	who, from := l.who(d), l.agent.LogSize()
	l.virsh("destroy "+d, "domrename "+d+" kept")
	l.running(proxy)
	if now := l.who(d); now.UUID == who.UUID || now.MAC == who.MAC {
		l.Errorf("the new VM has %v, the abandoned one %v", now, who)
	}
	both := l.picture("kept", d)
	if did, want := l.actions(from), []string{"prepare " + proxy, "define " + proxy, "start " + proxy}; !slices.Equal(did, want) {
		l.Errorf("the agent did %q; want %q", did, want)
	}
	from = l.agent.LogSize()
	l.crash()
	l.running(proxy)
	l.settle("plain")
	l.same(both, "after a restart", "kept", d)
	l.noActions(from, "after a restart")
	if h := l.host(); h.Abandoned != 1 || h.Managed != 3 {
		l.Errorf("%d domains, %d abandoned; want 3 and 1", h.Managed, h.Abandoned)
	}
}

// runsBeside: whoever has an abandoned VM now runs it beside the new VM that has
// its name, and whatever the agent does to that one is nothing to it.
func runsBeside(l *lane, about ...string) {
	d := domxml.DomainName(about[0])
	l.virsh("start kept")
	kept, id := l.picture("kept"), l.domainID(d)
	l.virsh("destroy " + d)
	l.restarted(about[0], id)
	l.same(kept, "beside the new VM", "kept")
}

// bare is the picture without what is about metadata.
func (p picture) bare() picture {
	p.Definitions = slices.DeleteFunc(slices.Clone(p.Definitions), func(line string) bool {
		return strings.Contains(line, "metadata") || strings.Contains(line, "<"+domxml.NamespacePrefix+":") || strings.Contains(line, "</"+domxml.NamespacePrefix+":")
	})
	return p
}

// leftIn checks that the files of an abandoned VM are still in the tree and
// that their record says what they are.
func (l *lane) leftIn(proxy string, files []string) {
	l.Helper()
	now := l.files(proxy)
	for _, f := range files {
		if !slices.Contains(now, f) {
			l.Errorf("%s is gone", f)
			continue
		}
		if filepath.Ext(f) != ".json" {
			continue
		}
		var rec observe.Record
		if err := json.Unmarshal([]byte(l.inside("cat", f)), &rec); err != nil || !rec.Abandoned {
			l.Errorf("record %+v, %v; want it abandoned", rec, err)
		}
	}
}
