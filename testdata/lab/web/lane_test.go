//go:build web

package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// order gives the agent an order.
func (l *lane) order(args ...string) {
	l.Helper()
	if out, err := l.agent.CLI(args...); err != nil {
		l.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// localSpec is a spec file, with what plain has.
const localSpec = `image = "debian-12"
machine_type = "small"
user_data = "#cloud-config\n"
`
