//go:build libvirtd

package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestOrders has one agent do what operators order, hold what only they may let
// go on, and change what specs change. Each case says which proxies it is about;
// all others have to run on untouched, "plain" through all of it.
func TestOrders(t *testing.T) {
	l := newLane(t, setting{callTimeout: "30s"}) // libvirt is slow at times, it does not hang
	l.configure(replacing("[policy]", "[policy]\nrollout_wait = \"10s\""))
	fleet := []string{"one", "plain", "two"}
	l.leased(fleet...)
	l.start()
	mass := names("mass", 3)
	l.drop(append(mass, "plain")...)
	l.running(mass...)
	l.beside("TestI06 a mass deletion is held until it is released", []string{"plain"}, mass, massDeletion)
	l.drop("one", "two")
	for _, c := range []struct {
		what  string
		about []string
		run   func(l *lane, about ...string)
	}{
		{"pause and resume", []string{"one"}, pausesAndResumes},
		{"recreate", []string{"one"}, recreates},
		{"TestI04 adopt", []string{"two"}, adopts},
		{"power off and on", []string{"two"}, switchesOff},
		{"a managed save is dropped by a change", []string{"two"}, dropsSaved},
		{"two changes, one after the other", []string{"one", "two"}, takesTurns},
		{"TestI05 abandon", []string{"one"}, abandons},
	} {
		l.beside(c.what, fleet, c.about, c.run)
	}
	l.beside("TestI05 an abandoned VM runs beside the new one", []string{"plain", "two"}, []string{"one"}, runsBeside)
	l.end()
}

// beside runs a subtest about some proxies of a fleet and checks that nothing is
// done to the others.
func (l *lane) beside(what string, fleet, about []string, run func(*lane, ...string)) {
	others := slices.DeleteFunc(slices.Clone(fleet), func(n string) bool { return slices.Contains(about, n) })
	l.Run(what, func(t *testing.T) {
		l := l.on(t)
		for _, n := range fleet {
			l.waitProxy(n, "is ready", func(p status.Proxy) bool { return runs(p) && p.IsReady() })
		}
		before, from := l.picture(domains(others)...), l.agent.LogSize()
		run(l, about...)
		l.same(before, "those beside", domains(others)...)
		l.noActions(from, "to those beside", about...)
	})
}

// leased gives proxies an address each, so that they become Ready, and a
// roll-out can see that they are back: the guests ask for none.
func (l *lane) leased(proxies ...string) {
	l.Helper()
	var entries []string
	for i, p := range proxies {
		entries = append(entries, fmt.Sprintf(`{"ip-address": "192.168.122.%d", "mac-address": %q, "expiry-time": %d}`,
			50+i, l.mac(p), time.Now().Add(time.Hour).Unix()))
	}
	path := filepath.Join(filepath.Dir(l.place.Home), "lib/dnsmasq/virbr0.status")
	if err := os.WriteFile(path, []byte("["+strings.Join(entries, ",\n")+"]\n"), 0o644); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.Remove(path) })
}

// command runs one of the agent's commands in the place, as root or behind
// what comes before it, and gives its exit code and all that it printed.
func (l *lane) command(before []string, args ...string) (int, string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx(), patience)
	defer cancel()
	all := slices.Concat(before, []string{l.agent.Bin, "--config", filepath.Join(l.place.Inside, "config.toml")}, args)
	cmd := l.place.Command(ctx, false, all...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.Fatalf("%q: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// orders gives an order as root, which has to be obeyed.
func (l *lane) orders(args ...string) {
	l.Helper()
	if code, out := l.command(nil, args...); code != 0 {
		l.Fatalf("%q: exit code %d: %s", args, code, out)
	}
}

// refuses gives an order that has to be refused, with those words.
func (l *lane) refuses(says string, before []string, args ...string) {
	l.Helper()
	if code, out := l.command(before, args...); code != 1 || !strings.Contains(out, says) {
		l.Errorf("%q: exit code %d: %s; want 1 and %q", args, code, out, says)
	}
}

// crash kills the agent and starts it again.
func (l *lane) crash() {
	l.Helper()
	if err := l.agent.Signal(syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	var exit *exec.ExitError
	if err := l.agent.Stop(); !errors.As(err, &exit) {
		l.Fatalf("the agent ended with %v; want it killed", err)
	}
	l.start()
}

func massDeletion(l *lane, mass ...string) {
	before, from := l.picture(domains(mass)...), l.agent.LogSize()
	l.held(func() { l.remove(mass...) })
	var digest string
	holds := func(h status.Host) bool {
		if len(h.Holds) == 1 {
			digest = h.Holds[0].Digest
		}
		return len(h.Holds) == 1 && slices.Equal(h.Holds[0].Proxies, mass)
	}
	l.wait("the deletion is held", holds)
	shown := digest
	l.crash()
	l.wait("the deletion is held after a restart", holds)
	l.settle("plain")
	if _, out := l.command(nil, "status"); digest != shown || !strings.Contains(strings.Join(strings.Fields(out), " "), "release "+digest) {
		l.Errorf("digest %s, before the restart %s, and status says:\n%s", digest, shown, out)
	}
	const other = "0123456789ab"
	l.refuses("digest "+other, nil, "release", other)
	l.settle("plain")
	l.same(before, "while it is held", domains(mass)...)
	l.noActions(from, "while it is held")

	l.orders("release", digest)
	l.gone(mass...)
	for _, n := range mass {
		l.nothing(n)
	}
	if h := l.host(); len(h.Holds) > 0 || h.Managed != 1 {
		l.Errorf("still held: %+v; %d domains, want 1", h.Holds, h.Managed)
	}
}
