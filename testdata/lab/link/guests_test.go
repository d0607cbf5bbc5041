//go:build libvirtd

package link

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/program/fakeagent"
)

// boots makes the program an image of the agent's configuration, by its name.
func (l *lane) boots(mode program.Mode) {
	l.Helper()
	path, err := program.Build(l.place.Home, mode)
	if err != nil {
		l.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		l.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	sum := sha256.Sum256(b)
	l.configure(func(text string) string {
		return text + fmt.Sprintf("\n[images.%s]\nsource = %q\nsha256 = %q\n", mode,
			filepath.Join(l.place.Inside, filepath.Base(path)), hex.EncodeToString(sum[:]))
	})
}

// configure changes the agent's configuration, which it reads when it starts.
func (l *lane) configure(edit func(string) string) {
	l.Helper()
	path := filepath.Join(l.place.Home, "config.toml")
	b, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(edit(string(b))), 0o644); err != nil {
		l.Fatal(err)
	}
}

// replacing gives an edit that replaces text that is there.
func replacing(old, with string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			panic("no " + old + " in the agent's configuration")
		}
		return strings.Replace(text, old, with, 1)
	}
}

// specOf is a spec of a proxy that boots a program.
func specOf(mode program.Mode, more string) string {
	return strings.Replace(spec(more), "debian-12", mode.String(), 1)
}

// agentSocket is the unix socket of a running domain's guest agent channel.
func (l *lane) agentSocket(proxy string) string {
	l.Helper()
	xml := l.virsh("dumpxml " + domxml.DomainName(proxy))
	_, rest, ok := strings.Cut(xml, "<channel type='unix'>")
	_, rest, ok2 := strings.Cut(rest, "path='")
	path, _, ok3 := strings.Cut(rest, "'")
	if !ok || !ok2 || !ok3 {
		l.Fatalf("no socket of a channel in:\n%s", xml)
	}
	top := filepath.Dir(l.place.Home)
	for inside, outside := range map[string]string{"/var/lib/libvirt/": "lib", "/run/": "run"} {
		if strings.HasPrefix(path, inside) {
			return filepath.Join(top, outside, strings.TrimPrefix(path, inside))
		}
	}
	l.Fatalf("socket %s is in no directory of the private libvirtd", path)
	return ""
}

// agentOpen waits until the proxy's guest has opened the agent's port.
func (l *lane) agentOpen(proxy string) {
	l.Helper()
	l.await(patience, "the agent's port of "+proxy+" is open", func() bool {
		return strings.Contains(l.virsh("dumpxml "+domxml.DomainName(proxy)), "state='connected'")
	})
}

// answers puts fake guest agents behind the channels of running proxies:
// libvirtd is killed and connects to them when it comes back.
func (l *lane) answers(of map[string]fakeagent.Behaviour) map[string]*fakeagent.Fake {
	l.Helper()
	fakes := map[string]*fakeagent.Fake{}
	for proxy, b := range of {
		l.agentOpen(proxy)
		f, err := fakeagent.Take(l.agentSocket(proxy), b)
		if err != nil {
			l.Fatal(err)
		}
		l.Cleanup(func() { _ = f.Close() })
		fakes[proxy] = f
	}
	l.killed()
	return fakes
}

// killed kills libvirtd and starts it again.
func (l *lane) killed() {
	l.Helper()
	if err := l.place.Down("KILL"); err != nil {
		l.Fatal(err)
	}
	if err := l.place.Up(); err != nil {
		l.Fatal(err)
	}
}

// agentTimeout is how long libvirt waits for a proxy's guest agent, as it
// keeps it with the running domain; empty: for ever.
func (l *lane) agentTimeout(proxy string) string {
	l.Helper()
	path := filepath.Join(filepath.Dir(l.place.Home), "run/libvirt/qemu", domxml.DomainName(proxy)+".xml")
	b, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "<agentTimeout>")
	value, _, ok := strings.Cut(rest, "</agentTimeout>")
	if !ok {
		_, rest, _ = strings.Cut(string(b), "<agent timeout='")
		value, _, _ = strings.Cut(rest, "'")
	}
	return value
}

// mac is that of a proxy's first interface.
func (l *lane) mac(proxy string) string { return domxml.MAC("lab", proxy, 0) }

func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", prefix, i))
	}
	return out
}

// beginLane is newLane with the programs as images.
func beginLane(t *testing.T, s setting, modes ...program.Mode) *lane {
	t.Helper()
	l := newLane(t, s)
	for _, m := range modes {
		l.boots(m)
	}
	return l
}
