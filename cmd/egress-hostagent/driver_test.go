package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/virt"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// patience bounds each wait; it is reached only when something is broken.
const patience = 30 * time.Second

// hall is a host in a directory: libvirt's test driver, real files, and
// agents that come and go while the "daemon" stays.
type hall struct {
	t    testing.TB
	dir  string
	cfg  config.Config
	conn *virt.Conn

	agent *hostagent.Agent
	stop  func()
	who   *identity // of the next start; nil: testIdentity
	ended error     // of the latest Run
}

// stays hands out a link that outlives the agent: the test driver's state ends
// with its connection.
type stays struct{ *virt.Conn }

func (stays) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func newHall(t testing.TB) *hall {
	h := &hall{t: t, dir: t.TempDir()}
	for _, d := range []string{"specs", "tree"} {
		if err := os.Mkdir(filepath.Join(h.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	img, err := kit.EmptyImage(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(img)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	h.configure(fmt.Sprintf("[images.debian]\nsource = %q\nsha256 = %q\n[images.wrong]\nsource = %q\nsha256 = %q\n",
		img, hex.EncodeToString(sum[:]), img, strings.Repeat("0", 64)), virttest.NodeURI(t, virttest.ForeignDomains()...))
	h.conn = wire(h.cfg, testIdentity, hostagent.Kept{}, nil, slog.New(slog.DiscardHandler)).conn
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.conn.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	h.wait("the link is up", func() bool { _, err := h.conn.ListDomains(ctx); return err == nil })
	return h
}

func (h *hall) configure(images, uri string) {
	text := fmt.Sprintf(`[host]
id = "host-1"
name = "h"
[libvirt]
uri = %q
[specs]
dir = "%[2]s/specs"
[tree]
root = "%[2]s/tree"
[state]
dir = "%[2]s/state"
[policy]
deletion_delay = "1s"
shutdown_grace = "3s"
[probe]
enabled = false
[machine_types.small]
cpus = 1
memory = "256MiB"
%s`, uri, h.dir, images)
	cfg, err := config.Decode("config.toml", []byte(text))
	if err != nil {
		h.t.Fatal(err)
	}
	h.cfg = cfg
}

// testIdentity is the host that halls are on.
var testIdentity = identity{ID: "host-1", Own: "host-1", Name: "h", Configured: true}

// start runs an agent in this process, on the parts that "run" uses.
func (h *hall) start() {
	h.t.Helper()
	who := testIdentity
	if h.who != nil {
		who = *h.who
	}
	st, content, err := state.Open(h.cfg.State, who.Own)
	if err != nil {
		h.t.Fatal(err)
	}
	kept := hostagent.Restore(content, time.Now(), func(e state.Entry, why error) { h.t.Errorf("state entry %s: %v", e.Key, why) })
	w := wire(h.cfg, who, kept, nil, slog.New(slog.DiscardHandler))
	w.parts.Hypervisor, w.parts.Executor.Hypervisor = stays{h.conn}, h.conn
	w.parts.State, w.parts.Alive = st, func(status.Host) {}
	h.agent = hostagent.New(w.parts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.ended = h.agent.Run(ctx) }()
	h.stop = func() { cancel(); <-ended; st.Close() }
	h.t.Cleanup(h.stop)
}

func (h *hall) wait(what string, cond func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			if h.agent != nil {
				h.t.Logf("status: %+v", h.agent.Status())
			}
			h.t.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (h *hall) proxy(name string) status.Proxy {
	for _, p := range h.agent.Status().Proxies {
		if p.Name == name {
			return p
		}
	}
	return status.Proxy{}
}

func (h *hall) waitReady(name string) status.Proxy {
	h.t.Helper()
	h.wait(name+" is ready", func() bool { return h.proxy(name).IsReady() })
	return h.proxy(name)
}

func (h *hall) waitReason(name, reason string) string {
	h.t.Helper()
	var c status.Condition
	h.wait(name+" says "+reason, func() bool {
		c, _ = h.proxy(name).Condition(status.Synced)
		return c.Reason == reason
	})
	return c.Message
}

func (h *hall) write(file, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, "specs", file)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hall) remove(file string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.dir, "specs", file)); err != nil {
		h.t.Fatal(err)
	}
}

// files lists the image tree without base images.
func (h *hall) files() []string {
	h.t.Helper()
	var out []string
	for _, sub := range []string{"disk", "seed", "console"} {
		names, err := filepath.Glob(filepath.Join(h.dir, "tree", sub, "*"))
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, names...)
	}
	return out
}

// foreign is everything that can be seen of the domains of others.
func (h *hall) foreign() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	ds, err := h.conn.ListDomains(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range ds {
		if strings.Contains(d.Metadata, `host="host-1"`) || strings.Contains(d.Metadata, "host='host-1'") {
			continue
		}
		for _, inactive := range []bool{true, false} {
			xml, err := h.conn.DomainXML(h.t.Context(), d.UUID, inactive)
			if err != nil {
				h.t.Fatal(err)
			}
			out[fmt.Sprintf("%s %v", d.UUID, inactive)] = fmt.Sprintf("%+v\n%s", d, xml)
		}
	}
	if len(out) < 4 {
		h.t.Fatalf("only %d documents of foreign domains; the preloaded ones are missing", len(out))
	}
	return out
}

const goodSpec = "image = \"debian\"\nmachine_type = \"small\"\nuser_data = '''\n#cloud-config\n'''\n"

func TestDriverWholeLife(t *testing.T) {
	h := newHall(t)
	before := h.foreign()
	h.start()
	h.write("p.toml", goodSpec)
	first := h.waitReady("p")
	if first.URL == "" || len(h.files()) != 4 { // overlay, record, seed, console
		t.Fatalf("url %q, files %v", first.URL, h.files())
	}

	h.write("p.toml", "# a comment\n"+goodSpec+"[labels]\nregion = \"eu\"\n")
	h.wait("the label shows", func() bool { return h.proxy("p").Labels["region"] == "eu" })
	if again := h.waitReady("p"); again.Instance != first.Instance {
		t.Errorf("a comment and a label made a new incarnation")
	}

	h.stop()
	h.start()
	if again := h.waitReady("p"); again.Instance != first.Instance || again.UUID != first.UUID {
		t.Errorf("a restart made a new incarnation")
	}

	h.write("p.toml", strings.Replace(goodSpec, "#cloud-config", "#cloud-config\n# edited", 1))
	h.wait("the edit runs", func() bool { p := h.proxy("p"); return p.IsReady() && p.Instance != first.Instance })
	h.wait("the old incarnation is gone", func() bool { return len(h.files()) == 4 })
	if got := h.proxy("p").UUID; got != first.UUID {
		t.Errorf("UUID %s, was %s", got, first.UUID)
	}

	h.remove("p.toml")
	h.wait("the proxy is gone", func() bool { return len(h.agent.Status().Proxies) == 0 })
	if left := h.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := h.conn.LookupDomain(t.Context(), first.UUID); err == nil {
		t.Error("the domain is still defined")
	}
	if d := cmp.Diff(before, h.foreign()); d != "" {
		t.Errorf("TestI04: foreign domains changed (-before +after):\n%s", d)
	}
}

func TestI04_DriverNameOfAForeignDomainIsAConflict(t *testing.T) {
	h := newHall(t)
	const theirs = `<domain type='test'><name>egress-p</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>`
	if err := h.conn.Define(t.Context(), theirs, false); err != nil {
		t.Fatal(err)
	}
	before := h.foreign()
	h.start()
	h.write("p.toml", goodSpec)
	h.write("q.toml", goodSpec)
	h.waitReady("q")
	if msg := h.waitReason("p", "Conflict"); !strings.Contains(msg, "rename") {
		t.Errorf("message %q says no way out", msg)
	}
	h.remove("p.toml")
	h.wait("the name is gone", func() bool { return h.proxy("p").Name == "" })
	if d := cmp.Diff(before, h.foreign()); d != "" {
		t.Errorf("foreign domains changed (-before +after):\n%s", d)
	}
}

func TestDriverBadInputStopsOnlyItself(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("good.toml", goodSpec)
	h.write("edited.toml", goodSpec)
	h.waitReady("good")
	was := h.waitReady("edited")

	h.write("broken.toml", "image = \"debian\"\nmachine_type = \"small\"\nmemory-mib = 4\ncpus = 2.0\n")
	h.write("wrong.toml", strings.Replace(goodSpec, `"debian"`, `"wrong"`, 1))
	h.write("edited.toml", goodSpec+"[netwrok]\n")
	msg := h.waitReason("broken", "SpecInvalid")
	for _, want := range []string{"broken.toml:3:1", "memory-mib", "broken.toml:4:"} {
		if !strings.Contains(msg, want) {
			t.Errorf("message %q lacks %q", msg, want)
		}
	}
	msg = h.waitReason("wrong", "ImageFailed")
	if !strings.Contains(msg, "sha256") {
		t.Errorf("message %q does not name the digest", msg)
	}
	msg = h.waitReason("edited", "SpecInvalid")
	if !strings.Contains(msg, "netwrok") {
		t.Errorf("message %q does not name the key", msg)
	}
	now := h.proxy("edited")
	if c, _ := now.Condition(status.Running); c.Status != status.True || now.Instance != was.Instance {
		t.Errorf("a broken edit changed the VM: %+v", now)
	}
	if !h.proxy("good").IsReady() {
		t.Error("the good proxy suffered")
	}
	problems := strings.Join(h.agent.Status().Sources[0].Problems, "\n")
	if !strings.Contains(problems, "broken.toml:3:1") {
		t.Errorf("status does not list the problem: %s", problems)
	}
}

func TestDriverMissingSpecDirectoryLosesNoVM(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	was := h.waitReady("p")
	specs := filepath.Join(h.dir, "specs")
	if err := os.Rename(specs, specs+".away"); err != nil {
		t.Fatal(err)
	}
	h.wait("the source is in doubt", func() bool {
		c, _ := h.agent.Status().Condition(status.SpecsRead)
		return c.Status == status.False && strings.Contains(c.Message, specs)
	})
	h.stop() // over a restart too
	h.start()
	h.wait("the restarted agent sees the VM", func() bool { return h.proxy("p").Instance == was.Instance })
	if err := os.Rename(specs+".away", specs); err != nil {
		t.Fatal(err)
	}
	if now := h.waitReady("p"); now.Instance != was.Instance {
		t.Error("a missing directory cost the VM")
	}
}

func TestI16_DriverTreeWithoutMarker(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	was := h.waitReady("p")
	tree := filepath.Join(h.dir, "tree")
	if err := os.Rename(tree, tree+".away"); err != nil { // the volume is not mounted
		t.Fatal(err)
	}
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	h.stop()
	h.start()
	h.write("q.toml", goodSpec)
	if msg := h.waitReason("q", "ImageTreeMissing"); !strings.Contains(msg, tree) {
		t.Errorf("message %q does not name the tree", msg)
	}
	d, err := h.conn.LookupDomain(t.Context(), was.UUID)
	if err != nil || d.Power != observe.PowerRunning {
		t.Errorf("the VM suffered: %+v, %v", d, err)
	}
	if names, _ := filepath.Glob(filepath.Join(tree, "*")); len(names) != 0 {
		t.Errorf("the empty mount point was written to: %v", names)
	}
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tree+".away", tree); err != nil {
		t.Fatal(err)
	}
	h.stop()
	h.start()
	h.waitReady("q")
	if now := h.waitReady("p"); now.Instance != was.Instance {
		t.Error("the VM was rebuilt")
	}
}

func TestDriverFilesHaveTheirModes(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	h.waitReady("p")
	modes := map[string]os.FileMode{}
	for _, f := range h.files() {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		modes[filepath.Base(filepath.Dir(f))+filepath.Ext(f)] = st.Mode().Perm()
	}
	want := map[string]os.FileMode{"disk.qcow2": 0o660, "disk.json": 0o640, "seed.iso": 0o640, "console.log": 0o640}
	if d := cmp.Diff(want, modes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	names := []string{}
	for _, p := range h.agent.Status().Proxies {
		names = append(names, p.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("status is not in order: %v", names)
	}
}
