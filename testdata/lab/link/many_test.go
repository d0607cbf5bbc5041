//go:build libvirtd

package link

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// How many domains a full host has.
const (
	manyRunning = 10
	manyOff     = 120 // ours, powered off, their specs taken away a moment ago
	manyForeign = 70
)

const asleep = `<network><name>asleep</name><bridge name='asleep0'/><ip address='192.168.124.1' netmask='255.255.255.0'/></network>`

// foreignXML is a domain of somebody else; with a claim it carries a copy of
// the metadata of one of ours.
const foreignXML = `<domain type='qemu'><name>%s</name><memory unit='MiB'>64</memory>%s<os><type arch='x86_64'>hvm</type></os></domain>`

// TestI10_TwoHundredDomainsAreAdopted: an agent that starts on a full host
// takes over what is there and changes nothing. The agent itself made its 130
// domains; 120 of them could not start, for their network is stopped, and are
// unwanted now, but not to be removed for a day.
func TestI10_TwoHundredDomainsAreAdopted(t *testing.T) {
	l := newLane(t, setting{deletionDelay: "24h", callTimeout: "30s"})
	running, off := numbered("r", manyRunning), numbered("off", manyOff)
	l.fill(running, off)
	all := append(domains(append(running, off...)), numbered("foreign", manyForeign)...)
	if n := len(strings.Fields(l.virsh("list --all --name"))); n != len(all) {
		t.Fatalf("%d domains; want %d", n, len(all))
	}
	before, from := l.picture(all...), l.agent.LogSize()

	began := time.Now()
	l.start()
	answers := time.Since(began)
	l.wait("all is adopted", func(h status.Host) bool {
		n := 0
		for _, p := range h.Proxies {
			if runs(p) {
				n++
			}
		}
		return connected(h) && n == manyRunning && h.Foreign == manyForeign && len(h.Proxies) == manyRunning+manyOff
	})
	took := time.Since(began)
	l.settle(running[0])
	l.noHandles()
	h := l.host()
	clients := l.clients()
	t.Logf("%d domains: answered after %s, all adopted after %s; %s, %d goroutines, connections %v",
		len(all), answers.Round(time.Millisecond), took.Round(time.Millisecond), l.process(), h.Goroutines, clients)
	if len(clients) != 3 {
		t.Errorf("connections %v; want three", clients)
	}
	l.same(before, "after the adoption", all...)
	l.noActions(from, "on adoption")
	l.end()
}

// fill makes the domains and ends the agent that did.
func (l *lane) fill(running, off []string) {
	l.Helper()
	l.defineAll("net-define", map[string]string{"asleep": asleep})
	l.Cleanup(func() { l.virsh("net-undefine asleep") })
	l.start()
	l.drop(running...)
	l.running(running...)
	for _, n := range off {
		l.write(n, spec("[[network]]\nnetwork = \"asleep\"\n"))
	}
	began := time.Now()
	l.await(3*time.Minute, "all domains are defined", func() bool {
		return len(strings.Fields(l.virsh("list --all --name"))) == len(running)+len(off)
	})
	l.Logf("made %d domains in %s", len(running)+len(off), time.Since(began).Round(time.Second))
	l.end()
	l.remove(off...)

	claim := metadata.FindString(l.virsh("dumpxml --inactive " + domxml.DomainName(running[0])))
	foreign := map[string]string{}
	for i, name := range numbered("foreign", manyForeign) {
		foreign[name] = fmt.Sprintf(foreignXML, name, []string{"", claim}[i%2])
	}
	l.defineAll("define", foreign)
}

// defineAll gives virsh's command a file for each name.
func (l *lane) defineAll(command string, xml map[string]string) {
	l.Helper()
	var commands []string
	for name, text := range xml {
		file := "define-" + name + ".xml"
		if err := os.WriteFile(filepath.Join(l.place.Home, file), []byte(text), 0o644); err != nil {
			l.Fatal(err)
		}
		commands = append(commands, command+" "+filepath.Join(l.place.Inside, file))
	}
	slices.Sort(commands)
	l.virsh(commands...)
}
