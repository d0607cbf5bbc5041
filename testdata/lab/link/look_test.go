//go:build libvirtd

package link

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// ctx also serves clean-up, when the test's own context is over.
func (l *lane) ctx() context.Context { return context.WithoutCancel(l.Context()) }

// picture is what must not change: definitions, domain ids (new at each start)
// and QEMU processes of some domains. The lines of definitions are sorted:
// libvirt puts controllers in another order when a running domain is defined
// again.
type picture struct {
	Definitions []string
	IDs         string
	QEMU        map[string]int
}

func (l *lane) picture(domains ...string) picture {
	l.Helper()
	var dump, ids []string
	for _, d := range domains {
		dump = append(dump, "dumpxml --inactive "+d)
		ids = append(ids, "domid "+d)
	}
	lines := strings.Split(l.virsh(dump...), "\n")
	slices.Sort(lines)
	p := picture{Definitions: lines, IDs: l.virsh(ids...), QEMU: l.qemu()}
	maps.DeleteFunc(p.QEMU, func(d string, _ int) bool { return !slices.Contains(domains, d) })
	return p
}

// same compares the domains of a picture with how they are now.
func (l *lane) same(before picture, when string, domains ...string) {
	l.Helper()
	if diff := cmp.Diff(before, l.picture(domains...)); diff != "" {
		l.Errorf("%s: domains changed (-before +after):\n%s", when, diff)
	}
}

func (l *lane) qemu() map[string]int {
	l.Helper()
	pids, err := l.place.QEMU()
	if err != nil {
		l.Fatal(err)
	}
	return pids
}

// actions are the steps the agent began since that offset of its log, but for
// those of the proxies named, as "action proxy".
func (l *lane) actions(from int64, except ...string) []string {
	var out []string
	for _, line := range l.agent.Log(from) {
		if a, p := line.Action(); a != "" && line["msg"] == "begin" && !slices.Contains(except, p) {
			out = append(out, a+" "+p)
		}
	}
	return out
}

// noActions checks that the agent began no step but for the proxies named.
func (l *lane) noActions(from int64, when string, except ...string) {
	l.Helper()
	if did := l.actions(from, except...); len(did) > 0 {
		l.Errorf("%s: the agent did %q", when, did)
	}
}

// process is how the agent's process is.
func (l *lane) process() kit.Process {
	l.Helper()
	p, err := kit.Look(l.agent.PID())
	if err != nil {
		l.Fatal(err)
	}
	return p
}

// clients are the agent's connections, as libvirtd counts them.
func (l *lane) clients() []string {
	l.Helper()
	ids, err := l.place.Clients(l.ctx(), l.agent.PID())
	if err != nil {
		l.Fatal(err)
	}
	return ids
}

// files lists what the image tree has of a proxy, without the console's log.
func (l *lane) files(proxy string) []string {
	l.Helper()
	return strings.Fields(l.inside("find", l.place.Tree, "-type", "f", "-name", proxy+".*", "-not", "-name", "*.log"))
}

// only checks that a proxy has exactly one domain, overlay and seed.
func (l *lane) only(proxy string) {
	l.Helper()
	n := 0
	for _, d := range strings.Fields(l.virsh("list --all --name")) {
		if d == domxml.DomainName(proxy) {
			n++
		}
	}
	count := func(suffix string) (c int) {
		for _, f := range l.files(proxy) {
			if strings.HasSuffix(f, suffix) {
				c++
			}
		}
		return c
	}
	if overlays, seeds := count(".qcow2"), count(".iso"); n != 1 || overlays != 1 || seeds != 1 {
		l.Errorf("%s: %d domains, %d overlays, %d seeds; want one of each: %q", proxy, n, overlays, seeds, l.files(proxy))
	}
}

// nothing checks that nothing is left of a proxy.
func (l *lane) nothing(proxy string) {
	l.Helper()
	if slices.Contains(strings.Fields(l.virsh("list --all --name")), domxml.DomainName(proxy)) {
		l.Errorf("%s: its domain is still there", proxy)
	}
	if left := l.files(proxy); len(left) > 0 {
		l.Errorf("%s: files left: %q", proxy, left)
	}
}

// fewGoroutines is above what an agent at its end has: its main goroutine,
// signals, libvirt's event loop and runtime helpers.
const fewGoroutines = 10

// end stops the agent and checks how it ended; it tells how long that took,
// of which the race detector sleeps one second.
func (l *lane) end() time.Duration {
	l.Helper()
	took, last := l.stop()
	for _, what := range []string{"connections", "stuck_calls", "handles", "leaked"} {
		if last[what] != "0" {
			l.Errorf("the agent ended with %s=%s; want 0", what, last[what])
		}
	}
	if n, err := strconv.Atoi(last["goroutines"]); err != nil || n >= fewGoroutines {
		l.Errorf("the agent ended with %s goroutines; want fewer than %d", last["goroutines"], fewGoroutines)
	}
	return took
}

// stop is end for an agent that libvirt does not answer: it may leave calls
// and connections to the end of the process.
func (l *lane) stop() (took time.Duration, last kit.Line) {
	l.Helper()
	began := time.Now()
	if err := l.agent.Stop(); err != nil {
		l.Errorf("the agent's end: %v", err)
	}
	took = time.Since(began)
	if strings.Contains(l.agent.LogText(0), "DATA RACE") {
		l.Errorf("data race:\n%s", l.agent.LogText(0))
	}
	lines := l.agent.Log(0)
	if len(lines) > 0 {
		last = lines[len(lines)-1]
	}
	if last["goroutines"] == "" {
		l.Errorf("the agent's last words are not how it ended:\n%s", l.agent.Tail(5))
	}
	l.Logf("end: %s, goroutines=%s connections=%s stuck_calls=%s handles=%s leaked=%s",
		took.Round(time.Millisecond), last["goroutines"], last["connections"], last["stuck_calls"], last["handles"], last["leaked"])
	return took, last
}
