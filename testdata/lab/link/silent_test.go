//go:build libvirtd

package link

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program/fakeagent"
)

var subnet = netip.MustParsePrefix("192.168.122.0/24")

// badGuests are guest agents that hang, lie, or speak nonsense.
func (l *lane) badGuests() map[string]fakeagent.Behaviour {
	foreign := []netip.Prefix{
		netip.MustParsePrefix("192.168.122.1/24"), // the host's
		netip.MustParsePrefix("198.51.100.7/24"), netip.MustParsePrefix("2001:db8::7/64"),
	}
	return map[string]fakeagent.Behaviour{
		"silent": fakeagent.Silent, "sync-only": fakeagent.SyncOnly, "hostile": fakeagent.Hostile(l.mac("hostile"), foreign),
		"huge": fakeagent.Huge(), "many": fakeagent.Many(l.mac("many"), 60000, 1), "full-house": fakeagent.Many(l.mac("full-house"), 1, 5000),
		"bad-json": fakeagent.Garbage(fakeagent.BadJSON), "bad-utf8": fakeagent.Garbage(fakeagent.BadUTF8),
		"wrong-id": fakeagent.Garbage(fakeagent.WrongID), "truncated": fakeagent.Garbage(fakeagent.Truncated),
		"wrong-shape": fakeagent.Garbage(fakeagent.WrongShape), "event": fakeagent.Garbage(fakeagent.Event), "deep": fakeagent.Garbage(fakeagent.Deep),
	}
}

// TestI17_BadGuestAgentsDelayAndFoolNobody puts a bad guest agent behind each
// of many proxies, and an honest one behind one more.
func TestI17_BadGuestAgentsDelayAndFoolNobody(t *testing.T) {
	l := beginLane(t, setting{}, program.Agent)
	// libvirtd reads what guest agents say while it should give signs of life:
	// 60,000 interfaces keep it busy for seconds.
	l.configure(replacing(`keepalive = "1s"`, `keepalive = "5s"`))
	l.start()
	guests := l.badGuests()
	bad := slices.Sorted(maps.Keys(guests))
	guests["honest"] = fakeagent.Honest(l.mac("honest"), []netip.Prefix{netip.MustParsePrefix("192.168.122.77/24")})
	for name := range guests {
		l.write(name, specOf(program.Agent, ""))
	}
	l.running(slices.Sorted(maps.Keys(guests))...)
	l.stop() // until the fakes are there every guest is a silent one, and calls wait for them
	fakes := l.answers(guests)
	l.start()

	honest := l.waitProxy("honest", "has its address from its guest agent", func(p status.Proxy) bool {
		return is(p, status.Addressed, status.True, "FromGuestAgent")
	})
	l.drop("late")
	l.running("late")
	for _, name := range bad {
		l.await(patience, name+" was asked", func() bool { return fakes[name].Requests("") > 0 })
	}
	again := honest.Addresses[0].Seen
	l.virsh("suspend egress-honest", "resume egress-honest") // an event: its addresses are read again
	l.waitProxy("honest", "is read again beside the silent ones", func(p status.Proxy) bool {
		return len(p.Addresses) > 0 && p.Addresses[0].Seen.After(again)
	})
	l.wait("no call is stuck", func(h status.Host) bool { return h.Link.StuckCalls == 0 })
	l.notFooled(bad)
	l.Logf("the agent beside %d bad guest agents: %s, %d goroutines", len(bad), l.process(), l.host().Goroutines)
	for name, f := range fakes {
		l.Logf("%-11s %d requests on %d connections", name, f.Requests(""), f.Connections())
	}
	l.end()
}

// notFooled checks what is shown of the proxies with a bad guest agent.
func (l *lane) notFooled(bad []string) {
	l.Helper()
	held := map[netip.Addr]string{}
	for _, p := range l.host().Proxies {
		if !is(p, status.Running, status.True, "") {
			l.Errorf("%s: %+v", p.Name, p.Conditions)
		}
		for _, a := range p.Addresses {
			if !subnet.Contains(a.Address) || a.Address == netip.MustParseAddr("192.168.122.1") {
				l.Errorf("%s is believed to have %s", p.Name, a.Address)
			}
			if other := held[a.Address]; other != "" {
				l.Errorf("%s and %s have %s", p.Name, other, a.Address)
			}
			held[a.Address] = p.Name
		}
		if slices.Contains(bad, p.Name) && p.URL != "" {
			l.Errorf("%s is listed at %s", p.Name, p.URL)
		}
	}
	text, _ := l.agent.CLI("status", "hostile")
	if !strings.Contains(text, "AddressNotBelieved") {
		l.Errorf("status of the hostile one:\n%s", text)
	}
	l.Logf("status of the hostile one:\n%s", text)
	for what, said := range map[string]string{"log": l.agent.LogText(0), "status": text} {
		for line := range strings.Lines(said) {
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				l.Errorf("%s has a control character: %q", what, line)
			}
			if len(line) > 8192 {
				l.Errorf("%s has a line of %d bytes: %.200q", what, len(line), line)
			}
		}
	}
}

// TestI15_LibvirtIsToldHowLongToWaitForAGuestAgent: at start, when an agent
// finds a domain running, and after each reconnect.
func TestI15_LibvirtIsToldHowLongToWaitForAGuestAgent(t *testing.T) {
	l := beginLane(t, setting{}, program.Idle)
	l.start()
	l.write("p", specOf(program.Idle, ""))
	l.running("p")
	told := func(when string) {
		t.Helper()
		l.await(patience, "libvirt is told "+when, func() bool { return l.agentTimeout("p") == "1" })
	}
	forget := func() {
		t.Helper()
		l.virsh("guest-agent-timeout egress-p --timeout 77")
		if got := l.agentTimeout("p"); got != "77" {
			t.Fatalf("libvirt keeps %q", got)
		}
	}
	told("after the start")
	forget()
	l.killed()
	told("after a reconnect")
	l.end()
	forget()
	l.start()
	told("by an agent that finds it running")
	l.end()
}

// TestI15_CallsThatNeverReturnDegradeTheLink lets as many calls hang as there
// are slots on all connections that may be open at once: somebody else's
// commands hang in the guest agents, and ours wait behind them.
func TestI15_CallsThatNeverReturnDegradeTheLink(t *testing.T) {
	l := beginLane(t, setting{callTimeout: "2100ms"}, program.Agent)
	l.start()
	const slots, connections = 3, 1 + 3
	all := names("hang", slots*connections)
	guests := map[string]fakeagent.Behaviour{}
	for i, name := range all {
		l.write(name, specOf(program.Agent, ""))
		honest := fakeagent.Honest(l.mac(name), []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("192.168.122.%d/24", 100+i))})
		guests[name] = func(request []byte) []byte {
			if bytes.Contains(request, []byte(neverAnswered)) {
				return nil
			}
			return honest(request)
		}
	}
	l.running(all...)
	l.manyWorkers()
	fakes := l.answers(guests)
	l.wait("all have their addresses", func(h status.Host) bool {
		return !slices.ContainsFunc(h.Proxies, func(p status.Proxy) bool { return !is(p, status.Addressed, status.True, "FromGuestAgent") })
	})
	base, replaced := l.process(), l.host().Link.Replaced

	release := l.hangAgents(all)
	for _, name := range all {
		l.await(patience, "a command hangs in "+name, func() bool { return fakes[name].Requests(neverAnswered) > 0 })
	}
	var commands []string
	for _, d := range domains(all) {
		// An event that costs nothing: addresses are read after it.
		commands = append(commands, "metadata "+d+" --config --uri urn:example:lab --key lab --set <lab/>")
	}
	l.virsh(commands...)
	l.wait("the link is degraded", func(h status.Host) bool {
		c, _ := h.Condition(status.LibvirtConnected)
		return c.Status == status.False && c.Reason == "LibvirtDegraded"
	})
	h := l.host()
	l.Logf("degraded: %+v, %d goroutines, %s; at first %s", h.Link, h.Goroutines, l.process(), base)
	if h.Link.Replaced-replaced != connections-1 || h.Link.StuckCalls != len(all) || h.Link.Connections != 3+connections-1 || !h.Link.Connected {
		t.Errorf("link %+v; want %d connections replaced, %d calls stuck", h.Link, connections-1, len(all))
	}
	text, err := l.agent.CLI("status")
	if err == nil || !strings.Contains(text, "LibvirtDegraded") {
		t.Errorf("status: %v\n%s", err, text)
	}
	l.Logf("status says:\n%s", text[:min(len(text), 600)])

	l.drop("late") // reads and changes go on
	l.waitProxy("late", "runs", runs)
	l.remove("late")
	l.gone("late")
	release()
	for _, f := range fakes {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	l.wait("all is well again", func(h status.Host) bool {
		c, _ := h.Condition(status.LibvirtConnected)
		return c.Status == status.True && h.Link.StuckCalls == 0 && h.Link.Connections == 3
	})
	if n := len(l.clients()); n != 3 {
		t.Errorf("libvirtd counts %d connections of the agent", n)
	}
	l.end()
}

// neverAnswered is a command that the guest agents hang in.
const neverAnswered = "guest-fsfreeze-freeze"

// manyWorkers lets libvirtd do more at once, from its next start on: without
// it, as many hung calls as here would leave it no worker.
func (l *lane) manyWorkers() {
	l.Helper()
	path := filepath.Join(filepath.Dir(l.place.Home), "etc/libvirtd.conf")
	before, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			l.Error(err)
		}
	}
	write(append(slices.Clone(before), "max_workers = 64\n"...))
	l.Cleanup(func() { write(before) })
}

// hangAgents is another program that waits for the guest agents of running
// proxies, for ever or until release is called. libvirt lets one command at a
// time to an agent; who comes next waits for half a minute.
func (l *lane) hangAgents(proxies []string) (release func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.ctx())
	var others sync.WaitGroup
	for _, p := range proxies {
		cmd := l.place.Command(ctx, false, "virsh", "-c", l.place.URI, "qemu-agent-command", domxml.DomainName(p),
			`{"execute":"`+neverAnswered+`"}`, "--block")
		if err := cmd.Start(); err != nil {
			l.Fatal(err)
		}
		others.Go(func() { _ = cmd.Wait() }) // it is ended by a signal
	}
	release = func() { cancel(); others.Wait() }
	l.Cleanup(release)
	return release
}
