package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

var shown = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sampleHost() status.Host {
	cond := func(typ string, s status.Truth, reason, msg string) status.Condition {
		return status.Condition{Type: typ, Status: s, Reason: reason, Message: msg, Since: shown.Add(-90 * time.Minute)}
	}
	return status.Host{
		Host: "kvm-1", HostID: "c2903d7d72f9434a", Version: "1.0", Libvirt: "qemu:///system", Time: shown,
		Conditions: []status.Condition{cond(status.LibvirtConnected, status.False, "CannotSee",
			"no connection to libvirt at qemu:///system: start libvirtd and see that this user is in group libvirt")},
		Sources: []status.Source{{Origin: "dir", Location: "/etc/egress-hostagent/proxies.d", Proxies: 2, LastRead: shown,
			Problems: []string{"/etc/egress-hostagent/proxies.d/b.toml:3:1: memory-mib: unknown key; did you mean \"memory\"?"}}},
		Counts: status.Counts{Managed: 3, Orphaned: 1, Foreign: 7},
		Images: []status.Image{{Key: "debian-12", State: "fetching", Detail: "12 of 340 MiB"}},
		Proxies: []status.Proxy{
			{
				Name: "a", Phase: status.PhaseReady, URL: "http://192.0.2.7:3128",
				Addresses:  []status.Address{{Address: netip.MustParseAddr("192.0.2.7"), Source: "agent", Seen: shown}},
				Conditions: []status.Condition{cond(status.Ready, status.True, "Ready", "")},
			},
			{
				Name: strings.Repeat("long-name-", 5), Phase: status.PhaseDegraded, Next: "start: the domain is powered off \x1b[2J (try 3 at 12:00:00Z)",
				Addresses:  []status.Address{{Address: netip.MustParseAddr("2001:db8:1:2:3:4:5:6"), Source: "agent", Seen: shown}},
				Conditions: []status.Condition{cond(status.Ready, status.False, "RunningPoweredOff", "")},
			},
		},
	}
}

func TestStatusFitsEightyColumns(t *testing.T) {
	var out bytes.Buffer
	printHost(&out, sampleHost())
	for _, line := range strings.Split(out.String(), "\n") {
		if n := len([]rune(line)); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	want := []string{
		"host kvm-1 (c2903d7d72f9), agent 1.0, libvirt qemu:///system",
		"! LibvirtConnected: CannotSee: no connection to libvirt at qemu:///system: start",
		"    libvirtd and see that this user is in group libvirt",
		"source dir /etc/egress-hostagent/proxies.d: 2 proxies, read 0s ago",
		"! /etc/egress-hostagent/proxies.d/b.toml:3:1: memory-mib: unknown key; did you",
		"    mean \"memory\"?",
		"domains: 3 managed, 1 of them orphaned, 7 of others",
		"image debian-12: fetching: 12 of 340 MiB",
		"",
		"NAME                      PHASE     ADDRESS               FOR  WHY NOT READY",
		"a                         Ready     192.0.2.7             90m",
		"long-name-long-name-lon…  Degraded  2001:db8:1:2:3:4:5:6  90m  start: the domai…",
		"",
	}
	if d := cmp.Diff(strings.Join(want, "\n"), out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestI17_GuestTextIsHarmlessOnATerminal(t *testing.T) {
	h := sampleHost()
	h.Proxies[0].Conditions = append(h.Proxies[0].Conditions, status.Condition{
		Type: status.Reachable, Status: status.False, Reason: "BadResponse", Message: "\x1b]0;owned\x07 \u202e\u009b31m",
	})
	var out bytes.Buffer
	printHost(&out, h)
	for _, p := range h.Proxies {
		printProxy(&out, p, shown)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\u009b\u202e") {
		t.Errorf("control characters reach the terminal: %q", out.String())
	}
}

func TestListShowsWhatServes(t *testing.T) {
	serving := func(name string, synced, reachable status.Truth) status.Proxy {
		return status.Proxy{Name: name, URL: "http://" + name + ":3128", Conditions: []status.Condition{
			{Type: status.Synced, Status: synced}, {Type: status.Running, Status: status.True},
			{Type: status.Addressed, Status: status.True}, {Type: status.Reachable, Status: reachable},
		}}
	}
	h := status.Host{Proxies: []status.Proxy{
		serving("ready", status.True, status.True), serving("broken-edit", status.False, status.True),
		serving("silent", status.True, status.False), serving("unseen", status.True, status.Unknown),
	}}
	var urls, list bytes.Buffer
	if err := printList(&urls, h, "urls"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("http://ready:3128\nhttp://broken-edit:3128\n", urls.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := printList(&list, status.Host{}, "json"); err != nil || strings.TrimSpace(list.String()) != "[]" {
		t.Errorf("an empty list is %q, %v; want []", list.String(), err)
	}
}

func TestEgressAddressIsShown(t *testing.T) {
	t.Parallel()
	p := status.Proxy{Name: "p", URL: "http://192.0.2.7:3128", Egress: netip.MustParseAddr("203.0.113.7")}
	for _, typ := range []string{status.Running, status.Addressed, status.Reachable} {
		p.Conditions = append(p.Conditions, status.Condition{Type: typ, Status: status.True, Since: shown})
	}
	silent := p
	silent.Egress = netip.Addr{}
	for _, test := range []struct {
		status.Proxy
		want bool
	}{{p, true}, {silent, false}} {
		var one, list bytes.Buffer
		printProxy(&one, test.Proxy, shown)
		if got := strings.Contains(one.String(), "egress  203.0.113.7 (by its own account)\n"); got != test.want {
			t.Errorf("status shows it: %t, want %t:\n%s", got, test.want, one.String())
		}
		if err := printList(&list, status.Host{Proxies: []status.Proxy{test.Proxy}}, "json"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(list.String(), `"egress_address": "203.0.113.7"`); got != test.want || !test.want && strings.Contains(list.String(), "egress") {
			t.Errorf("the list has it: %t, want %t:\n%s", got, test.want, list.String())
		}
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	type truths struct{ running, addressed, reachable status.Truth } // an empty one: the condition does not apply
	for _, test := range []struct {
		what string
		truths
		url  string
		want bool
	}{
		{"all well", truths{status.True, status.True, status.True}, "http://192.0.2.1:3128", true},
		{"not probed by configuration", truths{status.True, status.True, ""}, "http://192.0.2.1:3128", true},
		{"does not answer", truths{status.True, status.True, status.False}, "http://192.0.2.1:3128", false},
		{"not probed yet", truths{status.True, status.True, status.Unknown}, "http://192.0.2.1:3128", false},
		{"off", truths{status.False, status.False, status.Unknown}, "", false},
		{"libvirt can not be seen, it answers", truths{status.Unknown, status.Unknown, status.True}, "http://192.0.2.1:3128", true},
		{"libvirt can not be seen, it does not answer", truths{status.Unknown, status.Unknown, status.False}, "http://192.0.2.1:3128", false},
		{"libvirt can not be seen, nobody probes", truths{status.Unknown, status.Unknown, ""}, "http://192.0.2.1:3128", false},
		{"another proxy claims its address", truths{status.True, status.False, status.True}, "", false},
	} {
		p := status.Proxy{URL: test.url}
		for typ, truth := range map[string]status.Truth{status.Running: test.running, status.Addressed: test.addressed, status.Reachable: test.reachable} {
			if truth != "" {
				p.Conditions = append(p.Conditions, status.Condition{Type: typ, Status: truth})
			}
		}
		if got := serves(p); got != test.want {
			t.Errorf("%s: %t", test.what, got)
		}
	}
}
