//go:build web

package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// host is the name of every agent's host.
const host = "kvm1"

// long bounds a wait for what comes after several requests of the agent, which
// are five seconds apart, or after a failure's backoff.
const long = 90 * time.Second

// setting is what tests' agents differ in.
type setting struct {
	faults bool   // there is a proxy between agent and nginx
	token  string // that the agent shows; empty: it has none
	bare   bool   // the agent starts without any credential file
	more   string // TOML, at the end of the configuration
}

// lane is an agent on libvirt's test driver that pulls its manifest from an
// nginx, and the files of both.
type lane struct {
	*testing.T
	*site
	proxy    *Proxy // nil without faults
	agent    *kit.Agent
	pair     Pair // that the agent shows
	dir      string
	revision int64 // of the manifest that was published last
}

// newLane gives an nginx that serves and an agent that does not yet run.
func newLane(t *testing.T, s setting) *lane {
	t.Helper()
	t.Parallel()
	l := &lane{T: t, site: newSite(t), revision: 100}
	l.pair = l.host(t, host, time.Hour)
	dir, err := os.MkdirTemp("", "web-") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l.dir = dir
	url := l.URL("")
	if s.faults {
		l.proxy = l.newProxy(t)
		url = l.proxy.URL
	}
	if !s.bare {
		l.write("ca.pem", l.servers.PEM())
		l.show(l.pair)
	}
	if s.token != "" {
		l.write("token", []byte(s.token+"\n"))
	}
	l.prepare(url, s)
	t.Cleanup(func() {
		if err := l.agent.Stop(); err != nil {
			t.Errorf("agent: %v", err)
		}
		if t.Failed() {
			t.Logf("agent's log:\n%s", l.agent.Tail(60))
		}
	})
	return l
}

// startLane is newLane with the agent started.
func startLane(t *testing.T, s setting) *lane {
	t.Helper()
	l := newLane(t, s)
	l.start()
	return l
}

// configText goes at the end of the agent's configuration.
const configText = `
[manifest]
url = "%[1]s/manifests/{host}.json"
interval = "5s"
wait = "5s"

[tls]
ca_file = "%[2]s/ca.pem"
cert_file = "%[2]s/host.pem"
key_file = "%[2]s/host.key"
%[3]s
[limits]
start_interval = "0s"
%[4]s`

func (l *lane) prepare(url string, s setting) {
	l.Helper()
	place, err := kit.TestDriver(filepath.Join(l.dir, "home"))
	if err != nil {
		l.Fatal(err)
	}
	token := ""
	if s.token != "" {
		token = fmt.Sprintf("token_file = %q", l.path("token"))
	}
	l.agent, err = place.Prepare(shared.agent, kit.Setting{
		Acceleration: "tcg", Image: shared.image, DeletionDelay: "1s", ShutdownGrace: "1s",
		Extra: fmt.Sprintf(configText, url, l.dir, token, s.more),
	})
	if err != nil {
		l.Fatal(err)
	}
	config := filepath.Join(place.Home, "config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		l.Fatal(err)
	}
	l.agent.Bin = shared.agent // a copy just written may still be open in a process that is being forked
	named := strings.Replace(string(text), "[host]\n", "[host]\nname = \""+host+"\"\n", 1)
	if err := os.WriteFile(config, []byte(named), 0o644); err != nil {
		l.Fatal(err)
	}
}

func (l *lane) start() {
	l.Helper()
	if err := l.agent.Start(); err != nil {
		l.Fatalf("%v\n%s", err, l.agent.Tail(20))
	}
}

func (l *lane) stop() {
	l.Helper()
	if err := l.agent.Stop(); err != nil {
		l.Fatal(err)
	}
}

func (l *lane) path(name string) string { return filepath.Join(l.dir, name) }

// write puts a credential file in place, whole at once.
func (l *lane) write(name string, data []byte) {
	l.Helper()
	if err := os.WriteFile(l.path(name+".new"), data, 0o600); err != nil {
		l.Fatal(err)
	}
	if err := os.Rename(l.path(name+".new"), l.path(name)); err != nil {
		l.Fatal(err)
	}
}

// show makes the agent have a client certificate.
func (l *lane) show(p Pair) {
	l.Helper()
	l.write("host.pem", p.Cert)
	l.write("host.key", p.Key)
}

// object is one of a manifest.
type object map[string]any

// plain is a proxy with nothing special.
func plain(name string) object {
	return object{"name": name, "image": "debian-12", "machine_type": "small", "user_data": "#cloud-config\n"}
}

// with gives a proxy with another key besides.
func (o object) with(key string, value any) object {
	o[key] = value
	return o
}

func plains(names ...string) []object {
	out := []object{}
	for _, n := range names {
		out = append(out, plain(n))
	}
	return out
}

// manifest is a document with the revision that was given out last.
func (l *lane) manifest(proxies []object) object {
	return object{"version": 1, "host": host, "revision": l.revision, "issued_at": "2026-01-31T12:00:00Z", "proxies": proxies}
}

// publish makes the next revision of the manifest list these proxies alone.
func (l *lane) publish(proxies ...object) {
	l.Helper()
	l.revision++
	if proxies == nil {
		proxies = []object{}
	}
	l.publishDocument(l.manifest(proxies))
}

func (l *lane) publishDocument(o object) {
	l.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		l.Fatal(err)
	}
	l.site.publish(l.T, host, string(text))
}

// wait waits until the agent's status satisfies cond, and gives it.
func (l *lane) wait(what string, cond func(status.Host) bool) (last status.Host) {
	l.Helper()
	err := l.agent.Wait(long, what, func(h status.Host) bool {
		last = h
		return cond(h)
	})
	if err != nil {
		l.Fatalf("%v\nsources: %+v\nconditions: %+v", err, last.Sources, last.Conditions)
	}
	return last
}

// runs waits until these proxies are there, no others, and are as they should.
func (l *lane) runs(names ...string) picture {
	l.Helper()
	slices.Sort(names)
	return pictureOf(l.wait("these run: "+strings.Join(names, ", "), func(h status.Host) bool {
		var there []string
		for _, p := range h.Proxies {
			if c, _ := p.Condition(status.Synced); p.IsReady() && c.Status == status.True && p.Starts > 0 && p.Next == "" {
				there = append(there, p.Name)
			}
		}
		return slices.Equal(names, there) && len(h.Proxies) == len(names)
	}))
}

// picture is what must not change of VMs that nobody touches, by name.
type picture map[string]string

func pictureOf(h status.Host) picture {
	out := picture{}
	for _, p := range h.Proxies {
		c, _ := p.Condition(status.Running)
		out[p.Name] = fmt.Sprintf("%s %s, %d starts, running %s", p.UUID, p.Instance, p.Starts, c.Status)
	}
	return out
}

// now is the picture at this moment.
func (l *lane) now() picture {
	l.Helper()
	h, err := l.agent.Status()
	if err != nil {
		l.Fatal(err)
	}
	return pictureOf(h)
}

// unchanged tells when VMs are not as they were.
func (l *lane) unchanged(what string, was picture) {
	l.Helper()
	if d := cmp.Diff(was, l.now()); d != "" {
		l.Errorf("%s: VMs changed (-before +after):\n%s", what, d)
	}
}

// pulled is what status says of the manifest.
func pulled(h status.Host) status.Source {
	for _, s := range h.Sources {
		if s.Origin == "manifest" {
			return s
		}
	}
	return status.Source{}
}

// trouble waits until status has a reason with all of these words for not
// believing the manifest, and gives it.
func (l *lane) trouble(what string, words ...string) string {
	l.Helper()
	var said string
	l.wait(what+": status says "+strings.Join(words, " … "), func(h status.Host) bool {
		s := pulled(h)
		said = strings.Join(s.Problems, "\n")
		return !s.Synced && containsAll(said, words)
	})
	return said
}

func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// healed waits until the manifest is believed.
func (l *lane) healed(what string) {
	l.Helper()
	l.wait(what+" is over", func(h status.Host) bool {
		s := pulled(h)
		return s.Synced && len(s.Problems) == 0
	})
}

// asks waits until nginx has seen n more requests that satisfy cond.
func (l *lane) asks(what string, n int, cond func(Access) bool) {
	l.Helper()
	from := len(l.Accesses())
	err := until(fmt.Sprintf("%d requests: %s", n, what), func() error {
		all := l.Accesses()
		seen := 0
		for _, a := range all[min(from, len(all)):] {
			if cond(a) {
				seen++
			}
		}
		if seen < n {
			return fmt.Errorf("%d of %v", seen, all[min(from, len(all)):])
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
}

// answered gives a condition of asks.
func answered(code int) func(Access) bool {
	return func(a Access) bool { return a.Status == code }
}

// held waits for a hold of this kind over these proxies, and gives its digest.
func (l *lane) held(kind string, names ...string) string {
	l.Helper()
	var digest string
	l.wait("held: "+strings.Join(names, ", "), func(h status.Host) bool {
		for _, hold := range h.Holds {
			slices.Sort(hold.Proxies)
			if hold.Kind == kind && slices.Equal(hold.Proxies, names) {
				digest = hold.Digest
			}
		}
		return digest != ""
	})
	return digest
}

// order gives the agent an order.
func (l *lane) order(args ...string) {
	l.Helper()
	if out, err := l.agent.CLI(args...); err != nil {
		l.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// proxyOf gives a proxy's status.
func proxyOf(h status.Host, name string) status.Proxy {
	i := slices.IndexFunc(h.Proxies, func(p status.Proxy) bool { return p.Name == name })
	if i < 0 {
		return status.Proxy{}
	}
	return h.Proxies[i]
}

// localSpec is a spec file, with what plain has.
const localSpec = `image = "debian-12"
machine_type = "small"
user_data = "#cloud-config\n"
`
