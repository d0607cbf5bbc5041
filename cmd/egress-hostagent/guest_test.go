//go:build guest

package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/seed"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// bootPatience bounds the wait for an emulated guest that installs packages.
const bootPatience = 10 * time.Minute

// guestLane is one agent, as its own user, on a private libvirtd.
type guestLane struct {
	*testing.T
	place *kit.Place
	agent *kit.Agent
	name  string // the proxy whose guest is asked
}

func TestGuestLife(t *testing.T) {
	l := newGuestLane(t)
	user := l.userData()
	if err := l.agent.Drop("squid", func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	first := l.ready(func(status.Proxy) bool { return true })

	t.Run("TestI07 user-data is byte-identical in the guest", func(t *testing.T) {
		sum := sha256.Sum256(user)
		got := l.guest("sha256sum", "/var/lib/cloud/instance/user-data.txt")
		if want := hex.EncodeToString(sum[:]); !strings.HasPrefix(got, want) {
			t.Errorf("sha256 in the guest %s, in the file %s", got, want)
		}
		if got := l.guest("stat", "-c", "%a", "/etc/egress-release"); got != "755" {
			t.Errorf(`mode "0755" arrived as %s`, got)
		}
		if got := l.guest("cat", "/etc/egress-release"); got != "version: 1.10" {
			t.Errorf("version: 1.10 arrived as %q", got)
		}
	})
	t.Run("vendor script installed the guest agent", func(t *testing.T) {
		sum := sha256.Sum256(seed.Script())
		got := l.guest("sh", "-c", "sha256sum /var/lib/cloud/instance/scripts/vendor/*")
		if !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
			t.Errorf("the vendor directory holds %s", got)
		}
		if got := l.guest("systemctl", "is-active", "qemu-guest-agent"); got != "active" {
			t.Errorf("qemu-guest-agent is %s", got)
		}
	})
	t.Run("cloud-init is done", func(t *testing.T) {
		if got := l.guest("cloud-init", "status", "--wait"); !strings.Contains(got, "status: done") {
			t.Errorf("%s", got)
		}
	})
	t.Run("status shows the guest's own address, and it serves", func(t *testing.T) {
		addr := first.Addresses[0]
		if got := l.guest("ip", "-4", "-o", "address", "show", "eth0"); !strings.Contains(got, " "+addr.Address.String()+"/") {
			t.Errorf("status shows %s, the guest has %s", addr.Address, got)
		}
		out, err := l.place.Output(t.Context(), "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "30",
			"-x", first.URL, "http://connectivity.example:8204/generate_204")
		if err != nil || out != "204" {
			t.Errorf("through squid: %s, %v", out, err)
		}
		if out, err := l.agent.CLI("list"); err != nil || strings.TrimSpace(out) != first.URL {
			t.Errorf("list: %q, %v", out, err)
		}
	})
	t.Run("files stay the agent's while QEMU uses them", l.checkFiles)
	t.Run("TestI08 TestI10 restart and touch change nothing", func(t *testing.T) { l.restartAndTouch(t, first) })
	t.Run("TestI08 an edit gives a new instance-id on a fresh overlay", func(t *testing.T) { l.edit(t, first, user) })
	t.Run("TestI05 removal leaves nothing", l.removeAll)
}

// TestGuestDoctor boots the doctor's own small domain.
func TestGuestDoctor(t *testing.T) {
	l := newGuestLane(t)
	out, err := l.agent.CLI("doctor")
	t.Log(out)
	if err != nil || !strings.Contains(out, "a guest ran and powered off") {
		t.Errorf("doctor: %v", err)
	}
	if left, err := l.place.Output(t.Context(), "virsh", "-q", "-c", l.place.URI, "list", "--all", "--name"); err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("doctor left %q, %v", left, err)
	}
}

func newGuestLane(t *testing.T) *guestLane {
	l := &guestLane{T: t, name: "squid"}
	dir, err := os.MkdirTemp("", "egress-guest-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	image, err := kit.GuestImage(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := kit.Build(dir, "./cmd/egress-hostagent", "-tags=libvirt_dlopen")
	if err != nil {
		t.Fatal(err)
	}
	responder, err := kit.Build(dir, "./testdata/lab/responder")
	if err != nil {
		t.Fatal(err)
	}
	if l.place, err = kit.Private(filepath.Join(dir, "lab")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.place.Stop(); err != nil {
			t.Error(err)
		}
	})
	cmd := l.place.Command(t.Context(), false, responder, "-listen", l.place.Gateway+":8204")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.agent, err = l.place.Prepare(bin, kit.Setting{
		Acceleration: "tcg", Image: image, DeletionDelay: "2s", ShutdownGrace: "30s", Probe: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.agent.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("agent's log:\n%s", l.agent.Tail(60))
		}
	})
	return l
}

func (l *guestLane) userData() []byte {
	repo, err := kit.Repo()
	if err != nil {
		l.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(repo, "testdata", "specs", "squid.yaml"))
	if err != nil {
		l.Fatal(err)
	}
	if b[len(b)-1] == '\n' || !strings.Contains(string(b), "1.10") || !strings.Contains(string(b), `"0755"`) || !strings.Contains(string(b), "\n# ") {
		l.Fatal("squid.yaml lost what makes this test worth something")
	}
	return b
}

// ready waits until the proxy is Ready, with its address from the guest agent.
func (l *guestLane) ready(more func(status.Proxy) bool) (p status.Proxy) {
	l.Helper()
	began := time.Now()
	err := l.agent.Wait(bootPatience, "squid is ready", func(h status.Host) bool {
		if len(h.Proxies) != 1 {
			return false
		}
		p = h.Proxies[0]
		return p.IsReady() && p.Addresses[0].Source == "agent" && more(p)
	})
	if err != nil {
		l.Fatal(err)
	}
	l.Logf("ready after %s: %s", time.Since(began).Round(time.Second), p.URL)
	return p
}

// guest runs a command in the guest and gives what it printed.
func (l *guestLane) guest(args ...string) string {
	l.Helper()
	var started struct {
		Return struct {
			PID int `json:"pid"`
		} `json:"return"`
	}
	l.ask(&started, "guest-exec", map[string]any{"path": args[0], "arg": args[1:], "capture-output": true})
	var done struct {
		Return struct {
			Exited bool   `json:"exited"`
			Out    string `json:"out-data"`
			Err    string `json:"err-data"`
		} `json:"return"`
	}
	for deadline := time.Now().Add(3 * time.Minute); !done.Return.Exited; {
		if time.Now().After(deadline) {
			l.Fatalf("%v does not end in the guest", args)
		}
		<-time.After(200 * time.Millisecond)
		l.ask(&done, "guest-exec-status", map[string]any{"pid": started.Return.PID})
	}
	out, _ := base64.StdEncoding.DecodeString(done.Return.Out)
	return strings.TrimSpace(string(out))
}

func (l *guestLane) ask(answer any, command string, arguments map[string]any) {
	l.Helper()
	q, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		l.Fatal(err)
	}
	out, err := l.place.Output(l.Context(), "virsh", "-q", "-c", l.place.URI, "qemu-agent-command", domxml.DomainName(l.name), string(q))
	if err != nil {
		l.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		l.Fatalf("%s: %v: %s", command, err, out)
	}
}

func (l *guestLane) tree(args ...string) string {
	l.Helper()
	out, err := l.place.Output(l.Context(), append([]string{"find", l.place.Tree}, args...)...)
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (l *guestLane) checkFiles(t *testing.T) {
	if foreign := l.tree("-not", "-user", kit.User, "-printf", "%u %p\n"); foreign != "" {
		t.Errorf("not the agent's any more:\n%s", foreign)
	}
	modes := l.tree("-type", "f", "-not", "-name", ".egress-tree", "-printf", "%m %g %f\n")
	for _, want := range []string{"660 libvirt-qemu squid.", "640 libvirt-qemu squid.", "440 libvirt-qemu "} {
		if !strings.Contains(modes, want) {
			t.Errorf("no file with %q in\n%s", want, modes)
		}
	}
	console := l.place.Tree + "/console/squid.log"
	out, err := l.place.Command(t.Context(), true, "tail", "-c", "65536", console).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cloud-init") {
		t.Errorf("the agent's user reads of the console: %v, %d bytes", err, len(out))
	}
}

// domainID changes whenever the domain is started.
func (l *guestLane) domainID() string {
	l.Helper()
	out, err := l.place.Output(l.Context(), "virsh", "-q", "-c", l.place.URI, "domid", domxml.DomainName("squid"))
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (l *guestLane) restartAndTouch(t *testing.T, first status.Proxy) {
	id, files := l.domainID(), l.tree("-type", "f", "-not", "-name", "*.log", "-not", "-name", "*.qcow2", "-printf", "%f %T@ %i\n")
	if err := l.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.agent.Start(); err != nil {
		t.Fatal(err)
	}
	l.ready(func(status.Proxy) bool { return true })
	now := time.Now()
	for _, f := range []string{"squid.toml", "squid.yaml"} {
		if err := os.Chtimes(filepath.Join(l.place.Home, "proxies.d", f), now, now); err != nil {
			t.Fatal(err)
		}
	}
	seen := time.Now()
	err := l.agent.Wait(time.Minute, "the touched specs are read", func(h status.Host) bool { return h.Sources[0].LastRead.After(seen) })
	if err != nil {
		t.Fatal(err)
	}
	p := l.ready(func(status.Proxy) bool { return true })
	if got := l.domainID(); got != id || p.Instance != first.Instance {
		t.Errorf("domain id %s (was %s), instance %s (was %s)", got, id, p.Instance, first.Instance)
	}
	if got := l.tree("-type", "f", "-not", "-name", "*.log", "-not", "-name", "*.qcow2", "-printf", "%f %T@ %i\n"); got != files {
		t.Errorf("files changed:\n%s\nwere:\n%s", got, files)
	}
}

func (l *guestLane) edit(t *testing.T, first status.Proxy, user []byte) {
	edited := string(user) + "\n# edited"
	if err := l.agent.Write("squid.yaml", edited); err != nil {
		t.Fatal(err)
	}
	var p status.Proxy
	err := l.agent.Wait(3*time.Minute, "the edit runs in a new incarnation", func(h status.Host) bool {
		p = h.Proxies[0]
		running, _ := p.Condition(status.Running)
		synced, _ := p.Condition(status.Synced)
		return p.Instance != first.Instance && running.Status == status.True && synced.Status == status.True
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.agent.Wait(time.Minute, "the old incarnation is gone", func(status.Host) bool {
		return !strings.Contains(l.tree("-type", "f"), first.Instance)
	}); err != nil {
		t.Error(err)
	}
	if p.UUID != first.UUID {
		t.Errorf("UUID %s, was %s", p.UUID, first.UUID)
	}
	iso := fmt.Sprintf("%s/seed/squid.%s.iso", l.place.Tree, p.Instance)
	for file, want := range map[string]string{"user-data": edited, "meta-data": p.Instance} {
		out, err := l.agent.CLI("seed", "inspect", "--show", file, iso)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s of the new seed: %v\n%s", file, err, out)
		}
	}
}

func (l *guestLane) removeAll(t *testing.T) {
	if err := l.agent.Remove("squid.toml", "squid.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := l.agent.Wait(3*time.Minute, "the proxy is gone", func(h status.Host) bool { return len(h.Proxies) == 0 }); err != nil {
		t.Fatal(err)
	}
	if left := l.tree("-mindepth", "2", "-type", "f", "-not", "-path", "*/base/*"); left != "" {
		t.Errorf("files left:\n%s", left)
	}
	out, err := l.place.Output(t.Context(), "virsh", "-q", "-c", l.place.URI, "list", "--all", "--name")
	if err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("domains left: %s, %v", out, err)
	}
}
