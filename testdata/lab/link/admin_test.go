//go:build libvirtd

package link

import (
	"strings"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestAdminActions does with virsh what admins do, one proxy for each, under
// one agent. "plain" is never touched, and must never be.
func TestAdminActions(t *testing.T) {
	l := startLane(t)
	cases := []struct {
		name string
		what string
		run  func(l *lane, proxy string)
	}{
		{"destroyed", "destroy: started again", adminDestroys},
		{"killed", "QEMU killed: started again", qemuKilled},
		{"undefined", "TestI08 undefine of a running domain: defined again, runs on", adminUndefines},
		{"removed", "TestI08 destroy and undefine: defined again on its own overlay", adminRemoves},
		{"renamed", "TestI04 rename: found by its UUID, keeps the new name", adminRenames},
		{"paused", "suspend: left so; resume", adminPauses},
		{"saved", "managed save: a plain start restores it", adminSaves},
		{"snapshot", "TestI05 a snapshot does not stand in the way of removal", adminSnapshots},
		{"reset", "reboot and reset: nothing happens", adminResets},
		{"lost", "TestI04 redefined without our metadata: left alone", adminDropsMetadata},
		{"cloned", "TestI04 a clone with a copy of our metadata is foreign", adminClones},
	}
	names := []string{"plain"}
	for _, c := range cases {
		names = append(names, c.name)
	}
	l.drop(names...)
	l.running(names...)
	plain, from := l.picture("egress-plain"), l.agent.LogSize()
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) { c.run(l.on(t), c.name) })
	}
	t.Run("TestI04 a foreign domain with our name: Conflict", func(t *testing.T) { foreignName(l.on(t), "taken") })
	t.Run("network stopped: start fails, is shown, and comes with the network", func(t *testing.T) { networkStops(l.on(t), "offline") })
	l.same(plain, "after all of it", "egress-plain")
	for _, did := range l.actions(from) {
		if strings.HasSuffix(did, " plain") {
			t.Errorf("the agent did %q", did)
		}
	}
	l.end()
}

// on is l for a subtest.
func (l *lane) on(t *testing.T) *lane {
	sub := *l
	sub.T = t
	return &sub
}

// restarted waits until a proxy runs under another domain id.
func (l *lane) restarted(proxy, id string) {
	l.Helper()
	l.waitProxy(proxy, "runs again", func(p status.Proxy) bool {
		return runs(p) && l.domainID(domxml.DomainName(proxy)) != id
	})
}

// domainID is new at each start, "-" for a domain that does not run.
func (l *lane) domainID(domain string) string {
	l.Helper()
	return l.virsh("domid " + domain)
}

func (l *lane) instance(proxy string) string {
	l.Helper()
	return l.waitProxy(proxy, "is shown", func(status.Proxy) bool { return true }).Instance
}

// held does something while the agent stands still, so that it finds the
// outcome and nothing in between.
func (l *lane) held(f func()) {
	l.Helper()
	if err := l.agent.Signal(syscall.SIGSTOP); err != nil {
		l.Fatal(err)
	}
	defer func() {
		if err := l.agent.Signal(cont); err != nil {
			l.Error(err)
		}
	}()
	f()
}

func adminDestroys(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	id, inst := l.domainID(d), l.instance(proxy)
	l.virsh("destroy " + d)
	l.restarted(proxy, id)
	if now := l.instance(proxy); now != inst {
		l.Errorf("instance %s, was %s", now, inst)
	}
}

func qemuKilled(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	id, pid := l.domainID(d), l.qemu()[d]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	l.restarted(proxy, id)
}

func adminUndefines(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	before, inst, files := l.picture(d), l.instance(proxy), l.files(proxy)
	l.virsh("undefine " + d)
	l.await(patience, "the domain is defined again", func() bool {
		return strings.Contains(l.virsh("dominfo "+d), "Persistent:     yes")
	})
	l.running(proxy)
	l.same(before, "after it", d)
	l.sameFiles(proxy, inst, files)
}

// adminRemoves: the definition goes while the domain is off.
func adminRemoves(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	id, inst, files := l.domainID(d), l.instance(proxy), l.files(proxy)
	l.held(func() { l.virsh("destroy "+d, "undefine "+d) })
	l.waitProxy(proxy, "runs again", func(p status.Proxy) bool {
		return runs(p) && strings.Contains(l.virsh("list --name"), d) && l.domainID(d) != id
	})
	l.sameFiles(proxy, inst, files)
}

func (l *lane) sameFiles(proxy, instance string, files []string) {
	l.Helper()
	if now := l.instance(proxy); now != instance {
		l.Errorf("instance %s, was %s", now, instance)
	}
	if now := l.files(proxy); strings.Join(now, " ") != strings.Join(files, " ") {
		l.Errorf("files %q, were %q", now, files)
	}
}

// adminRenames: libvirt renames only what is off. A redefine keeps the name.
func adminRenames(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	uuid := l.virsh("domuuid " + d)
	l.held(func() { l.virsh("destroy "+d, "domrename "+d+" by-admin") })
	renamed := func(p status.Proxy) bool { return runs(p) && is(p, status.Synced, status.True, "Renamed") }
	l.waitProxy(proxy, "runs under its new name", renamed)
	l.write(proxy, strings.Replace(spec(""), `"tiny"`, `"little"`, 1))
	l.waitProxy(proxy, "runs with other memory", func(p status.Proxy) bool {
		return renamed(p) && strings.Contains(l.virsh("dominfo by-admin"), "163840 KiB")
	})
	if now := l.virsh("domuuid by-admin"); now != uuid {
		l.Errorf("UUID %s, was %s", now, uuid)
	}
	if all := l.virsh("list --all --name"); strings.Contains(all, d) {
		l.Errorf("there is a %s beside it:\n%s", d, all)
	}
}

func adminPauses(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	before, from := l.picture(d), l.agent.LogSize()
	l.virsh("suspend " + d)
	l.waitProxy(proxy, "is shown paused", paused)
	l.virsh("resume " + d)
	l.running(proxy)
	l.same(before, "after it", d)
	l.noActions(from, "after it")
}

func adminSaves(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	id := l.domainID(d)
	l.virsh("managedsave " + d)
	l.restarted(proxy, id)
	// It runs, for libvirt, before all of it is restored.
	l.waitProxy(proxy, "is restored", func(status.Proxy) bool {
		return strings.Contains(l.virsh("dominfo "+d), "Managed save:   no")
	})
	// QEMU's command line shows whether it was restored or booted.
	if log := l.inside("sh", "-c", "tail -n 60 /var/log/libvirt/qemu/"+d+".log"); !strings.Contains(log, "-incoming") {
		l.Errorf("it was booted, not restored:\n%s", log)
	}
}

func adminSnapshots(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	l.virsh("snapshot-create-as " + d + " before-upgrade --diskspec vdb,snapshot=no")
	if list := l.virsh("snapshot-list --name " + d); list != "before-upgrade" {
		l.Fatalf("snapshots: %q", list)
	}
	l.remove(proxy)
	l.gone(proxy)
	l.nothing(proxy)
}

func adminResets(l *lane, proxy string) {
	d := domxml.DomainName(proxy)
	before, from := l.picture(d), l.agent.LogSize()
	l.virsh("reboot --mode acpi "+d, "reset "+d)
	l.settle("plain")
	l.running(proxy)
	l.same(before, "after it", d)
	l.noActions(from, "after it")
}
