//go:build libvirtd

package link

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

func switchesOff(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	inst, files, before := l.instance(proxy), l.files(proxy), l.picture(d)
	l.write(proxy, spec("power = \"off\"\n"))
	l.waitProxy(proxy, "is off", func(p status.Proxy) bool { return p.Phase == status.PhaseOff && settled(p) })
	l.settle("plain")
	if info := l.virsh("dominfo " + d); !strings.Contains(info, "shut off") || !regexp.MustCompile(`Autostart: +disable`).MatchString(info) {
		l.Errorf("want it off, and without autostart:\n%s", info)
	}
	l.write(proxy, spec(""))
	l.running(proxy)
	if info := l.virsh("dominfo " + d); !regexp.MustCompile(`Autostart: +enable`).MatchString(info) {
		l.Errorf("want it with autostart:\n%s", info)
	}
	l.sameFiles(proxy, inst, files)
	if diff := cmp.Diff(before.Definitions, l.picture(d).Definitions); diff != "" {
		l.Errorf("its definition (-before +after):\n%s", diff)
	}
}

// dropsSaved: what a managed save left is not restored under a definition that
// is not its own.
func dropsSaved(l *lane, about ...string) {
	proxy := about[0]
	d := domxml.DomainName(proxy)
	inst, files, from := l.instance(proxy), l.files(proxy), l.agent.LogSize()
	l.orders("pause", proxy) // or the agent could start it again before it reads the spec
	l.virsh("managedsave " + d)
	l.write(proxy, little)
	l.waitProxy(proxy, "is off and its change waits", func(p status.Proxy) bool {
		return is(p, status.Running, status.False, "PoweredOff") && is(p, status.Synced, status.False, "PausedByOperator")
	})
	l.orders("resume", proxy)
	l.running(proxy)
	l.hasMemory(proxy, 160)
	if info := l.virsh("dominfo " + d); !regexp.MustCompile(`Managed save: +no`).MatchString(info) {
		l.Errorf("its saved state is still there:\n%s", info)
	}
	// QEMU's command line shows whether it was restored or booted.
	log := l.inside("sh", "-c", "tail -n 60 /var/log/libvirt/qemu/"+d+".log")
	if begins := strings.LastIndex(log, "starting up libvirt"); begins < 0 || strings.Contains(log[begins:], "-incoming") {
		l.Errorf("it was restored, not booted:\n%s", log)
	}
	said := slices.ContainsFunc(l.agent.Log(from), func(line kit.Line) bool {
		return line["proxy"] == proxy && strings.Contains(fmt.Sprint(line), "managed save")
	})
	if !said {
		l.Errorf("the log does not say that it was dropped:\n%s", l.agent.LogText(from))
	}
	l.sameFiles(proxy, inst, files)
}

// little is a spec with more memory than that of drop.
var little = strings.Replace(spec(""), `"tiny"`, `"little"`, 1)

// hasMemory checks what a running proxy has, in MiB.
func (l *lane) hasMemory(proxy string, mib int) {
	l.Helper()
	want := fmt.Sprintf("<memory unit='KiB'>%d</memory>", mib<<10)
	if xml := l.virsh("dumpxml " + domxml.DomainName(proxy)); !strings.Contains(xml, want) {
		l.Errorf("%s has no %s:\n%s", proxy, want, xml)
	}
}

// takesTurns: two changes at once, of which one waits until the proxy that is
// changed first serves again.
func takesTurns(l *lane, about ...string) {
	from, specs := l.agent.LogSize(), map[string]string{}
	for _, n := range about {
		specs[n] = l.waitProxy(n, "is shown", func(status.Proxy) bool { return true }).SpecHash
	}
	one, two := domxml.DomainName(about[0]), domxml.DomainName(about[1])
	l.held(func() {
		l.write(about[0], little)
		l.write(about[1], spec(""))
	})
	for _, n := range about {
		l.waitProxy(n, "runs as changed", func(p status.Proxy) bool {
			if q := l.qemu(); q[one] == 0 && q[two] == 0 {
				l.Fatal("both are down at once")
			}
			return runs(p) && p.SpecHash != specs[n]
		})
	}
	l.hasMemory(about[0], 160)
	l.hasMemory(about[1], 128)
	log := l.agent.Log(from)
	down := slices.IndexFunc(log, func(line kit.Line) bool { return line["action"] == "shutdown" })
	if down < 0 {
		l.Fatalf("nothing was shut down:\n%s", l.agent.LogText(from))
	}
	first := log[down]["proxy"]
	back := slices.IndexFunc(log[down:], func(line kit.Line) bool {
		return line["proxy"] == first && line["type"] == status.Ready && line["status"] == string(status.True)
	})
	next := slices.IndexFunc(log[down:], func(line kit.Line) bool {
		return line["action"] == "shutdown" && line["proxy"] != first
	})
	if back < 0 || next < back {
		l.Errorf("the second went down before %s was ready:\n%s", first, l.agent.LogText(from))
	}
}
