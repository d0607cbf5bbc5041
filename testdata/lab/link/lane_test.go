//go:build libvirtd

package link

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// patience bounds every wait for something that must come. It says nothing
// about how soon it should.
const patience = time.Minute

// setting is the agent's configuration; resync and delay stand for what only
// some tests change.
type setting struct {
	uri           string
	resync        string // default 10m
	deletionDelay string // default 1s
	actions       string // default 4
	callTimeout   string // default 3s, above twice the agent_timeout
}

const extra = `
[limits]
actions = ACTIONS
resync = "RESYNC"

[machine_types.tiny]
cpus = 1
memory = "128MiB"

[machine_types.little]
cpus = 1
memory = "160MiB"
`

// lane is an agent, as its own user, on the shared libvirtd.
type lane struct {
	*testing.T
	place   *kit.Place
	agent   *kit.Agent
	patient bool // with virsh: libvirtd may be about to be started again
}

// newLane gives a libvirtd without domains and an agent that does not yet run.
func newLane(t *testing.T, s setting) *lane {
	t.Helper()
	l := &lane{T: t, place: shared.place}
	l.clear()
	l.prepare(s)
	t.Cleanup(func() {
		if l.agent.PID() != 0 { // the test ended early
			_ = l.agent.Stop()
		}
		if t.Failed() {
			t.Logf("agent's log:\n%s", l.agent.Tail(150))
		}
		l.clear()
	})
	return l
}

// startLane is newLane with the agent started.
func startLane(t *testing.T) *lane {
	t.Helper()
	l := newLane(t, setting{})
	l.start()
	return l
}

// prepare writes the agent's configuration.
func (l *lane) prepare(s setting) {
	l.Helper()
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	agent, err := l.place.Prepare(shared.agent, kit.Setting{
		Acceleration: "tcg", URI: s.uri, Image: shared.image, ShutdownGrace: "1s",
		DeletionDelay: or(s.deletionDelay, "1s"),
		Libvirt:       "call_timeout = \"" + or(s.callTimeout, "3s") + "\"\nkeepalive = \"1s\"\nagent_timeout = \"1s\"",
		Extra:         strings.NewReplacer("ACTIONS", or(s.actions, "4"), "RESYNC", or(s.resync, "10m")).Replace(extra),
	})
	if err != nil {
		l.Fatal(err)
	}
	l.agent = agent
}

func (l *lane) start() {
	l.Helper()
	if err := l.agent.Start(); err != nil {
		l.Fatalf("%v\n%s", err, l.agent.Tail(20))
	}
}

// clear removes all domains, whoever made them, and all files of agents.
func (l *lane) clear() {
	l.Helper()
	l.inside("sh", "-c", "rm -f /run/freeze-at-* /run/frozen-at-*")
	if err := l.place.Up(); err != nil { // does nothing to one that runs, even if it stands still
		l.Fatal(err)
	}
	l.thaw()
	var commands []string
	for _, name := range strings.Fields(l.virsh("list --name")) {
		commands = append(commands, "destroy "+name)
	}
	for _, name := range strings.Fields(l.virsh("list --all --name")) {
		commands = append(commands, "undefine --managed-save --snapshots-metadata --nvram "+name)
	}
	if len(commands) > 0 {
		l.virsh(commands...)
	}
	l.inside("sh", "-c", `rm -rf "$1"/* "$1"/.egress-tree "$2"/*`, "sh", l.place.Tree, l.place.Inside)
}

// spec is a proxy's specification; more is TOML that goes at the end.
func spec(more string) string {
	return `image = "debian-12"
machine_type = "tiny"
user_data = "#cloud-config\n"
install_guest_agent = false
` + more
}

// drop puts a plain spec for each name into the agent's directory.
func (l *lane) drop(names ...string) {
	l.Helper()
	for _, n := range names {
		l.write(n, spec(""))
	}
}

func (l *lane) write(name, text string) {
	l.Helper()
	if err := l.agent.Write(name+".toml", text); err != nil {
		l.Fatal(err)
	}
}

func (l *lane) remove(names ...string) {
	l.Helper()
	for _, n := range names {
		if err := l.agent.Remove(n + ".toml"); err != nil {
			l.Fatal(err)
		}
	}
}

func (l *lane) touch(name string) {
	l.Helper()
	now := time.Now()
	if err := os.Chtimes(filepath.Join(l.place.Home, "proxies.d", name+".toml"), now, now); err != nil {
		l.Fatal(err)
	}
}

// await waits for a condition.
func (l *lane) await(patience time.Duration, what string, cond func() bool) {
	l.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			l.Fatalf("%s: not within %s", what, patience)
		}
		<-tick.C
	}
}

// wait waits for a condition on the agent's status.
func (l *lane) wait(what string, cond func(status.Host) bool) {
	l.Helper()
	if err := l.agent.Wait(patience, what, cond); err != nil {
		l.Fatal(err)
	}
}

// waitProxy waits for a condition on one proxy and gives the proxy as it then is.
func (l *lane) waitProxy(name, what string, cond func(status.Proxy) bool) (p status.Proxy) {
	l.Helper()
	l.wait(name+" "+what, func(h status.Host) bool {
		i := slices.IndexFunc(h.Proxies, func(p status.Proxy) bool { return p.Name == name })
		if i >= 0 {
			p = h.Proxies[i]
		}
		return i >= 0 && cond(p)
	})
	return p
}

// running waits until the proxies run as their specs ask and libvirt is done
// with starting them: on a slow machine that may take longer than a call is
// waited for, and libvirt ends a domain that it was still starting when it was
// killed.
func (l *lane) running(names ...string) {
	l.Helper()
	for _, n := range names {
		l.waitProxy(n, "runs", runs)
	}
	l.wait("no call is stuck", func(h status.Host) bool { return h.Link.StuckCalls == 0 })
}

// gone waits until nothing is shown of the proxies any more.
func (l *lane) gone(names ...string) {
	l.Helper()
	l.wait(strings.Join(names, ", ")+" gone", func(h status.Host) bool {
		return !slices.ContainsFunc(h.Proxies, func(p status.Proxy) bool { return slices.Contains(names, p.Name) })
	})
}

// runs tells whether a proxy runs and nothing is left to do for it.
func runs(p status.Proxy) bool { return is(p, status.Running, status.True, "") && settled(p) }

func settled(p status.Proxy) bool { return is(p, status.Synced, status.True, "") && p.Next == "" }

// is tells whether a condition of p has that status and reason; an empty
// reason is any.
func is(p status.Proxy, typ string, truth status.Truth, reason string) bool {
	c, ok := p.Condition(typ)
	return ok && c.Status == truth && (reason == "" || c.Reason == reason)
}

func connected(h status.Host) bool {
	c, ok := h.Condition(status.LibvirtConnected)
	return ok && c.Status == status.True
}

func (l *lane) host() status.Host {
	l.Helper()
	h, err := l.agent.Status()
	if err != nil {
		l.Fatal(err)
	}
	return h
}

// virsh runs commands as an admin.
func (l *lane) virsh(commands ...string) string {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx(), patience)
	defer cancel()
	for {
		out, err := l.place.Virsh(ctx, commands...)
		if err == nil {
			return out
		}
		if !l.patient || ctx.Err() != nil {
			l.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// inside runs a command in the place, as root.
func (l *lane) inside(args ...string) string {
	l.Helper()
	out, err := l.place.Output(l.ctx(), args...)
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func domains(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, domxml.DomainName(n))
	}
	return out
}
