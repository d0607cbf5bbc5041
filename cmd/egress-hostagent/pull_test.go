package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// published is a server with one document, and how often it was asked.
type published struct {
	*httptest.Server
	body  atomic.Pointer[string]
	asked atomic.Int64
}

func publish(t *testing.T) *published {
	p := &published{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		body := p.body.Load()
		if body == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, *body)
	}))
	t.Cleanup(p.Close)
	return p
}

// says makes a document of a revision with proxies of these names.
func (p *published) says(revision int, names ...string) {
	var proxies []string
	for _, name := range names {
		proxies = append(proxies, fmt.Sprintf(`{"name":%q,"image":"debian","machine_type":"small","user_data":"#cloud-config\n"}`, name))
	}
	body := fmt.Sprintf(`{"version":1,"host":"kvm-7","revision":%d,"issued_at":"2026-01-01T00:00:00Z","proxies":[%s]}`, revision, strings.Join(proxies, ","))
	p.body.Store(&body)
}

// pulling is the configuration of a host that pulls.
func (p *published) pulling() string {
	return fmt.Sprintf("[host]\nid = \"host-1\"\nname = \"kvm-7\"\n[manifest]\nurl = \"%s/{host}.json\"\ninterval = \"5s\"\ninsecure_http = true\n", p.URL)
}

func proxyOf(h status.Host, name string) status.Proxy {
	for _, p := range h.Proxies {
		if p.Name == name {
			return p
		}
	}
	return status.Proxy{}
}

// TestAManifestIsPulled: from a document to a VM, an older revision to a
// refusal, and an operator's reset; a file wins over a name in both.
func TestAManifestIsPulled(t *testing.T) {
	s, p := serveDaemon(t), publish(t)
	s.configure(p.pulling())
	s.reload()
	s.wait("the server's 404 is shown", func(h status.Host) bool { return h.Manifest != nil && h.Manifest.Reason == "HTTPStatus" })
	p.says(7, "m", "n")
	was := s.wait("m is ready", func(h status.Host) bool { return proxyOf(h, "m").IsReady() && proxyOf(h, "n").IsReady() })
	if m := proxyOf(was, "m"); m.Origin != "manifest" || was.Manifest.Revision != 7 {
		t.Errorf("%+v of %+v", m, was.Manifest)
	}

	s.write("specs/m.toml", goodSpec)
	s.wait("the file wins", func(h status.Host) bool { return proxyOf(h, "m").Origin == "dir" })
	p.says(6, "m")
	s.wait("the older one is refused", func(h status.Host) bool { return h.Manifest.Reason == "RollbackRejected" })
	if out, code := cli(t, "-c", filepath.Join(s.dir, "config.toml"), "manifest", "show"); code != exitError ||
		!strings.Contains(out, "revision") || !strings.Contains(out, "RollbackRejected") {
		t.Errorf("manifest show: %d, %s", code, out)
	}
	now := s.wait("nothing changes", func(h status.Host) bool { return h.Manifest.Failures > 0 })
	if a, b := proxyOf(now, "n"), proxyOf(was, "n"); a.Instance != b.Instance || a.Starts != b.Starts {
		t.Errorf("n is %+v, it was %+v", a, b)
	}
	text, err := s.client.Order(t.Context(), order.Order{Verb: order.ResetManifest})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(text)
	s.wait("it counts", func(h status.Host) bool { return h.Manifest.Reason == "" && h.Manifest.Revision == 6 })
}

// TestI03_AReloadJudgesTheManifest: by the catalog that it brings, at once; what
// it does not allow any more runs on, and says so.
func TestI03_AReloadJudgesTheManifest(t *testing.T) {
	s, p := serveDaemon(t), publish(t)
	p.says(1, "m")
	s.configure(p.pulling())
	s.reload()
	was := s.wait("m is ready", func(h status.Host) bool { return proxyOf(h, "m").IsReady() })
	s.configure(p.pulling() + "[machine_types.small]\ncpus = 1\nmemory = \"320MiB\"\n")
	s.reload()
	now := s.wait("m has the new size", func(h status.Host) bool {
		return proxyOf(h, "m").SpecHash != proxyOf(was, "m").SpecHash && proxyOf(h, "m").IsReady()
	})
	if now.Link.Connects != was.Link.Connects {
		t.Errorf("connected %d times", now.Link.Connects)
	}
	s.configure(p.pulling() + "[machine_types.tiny]\ncpus = 1\nmemory = \"128MiB\"\n[manifest.policy]\nmachine_types = [\"tiny\"]\n")
	s.reload()
	h := s.wait("it is refused", func(h status.Host) bool { return h.Manifest.Reason == "PolicyRefused" })
	if m := proxyOf(h, "m"); m.Instance != proxyOf(now, "m").Instance || !m.IsReady() {
		t.Errorf("m is %+v", m)
	}
	s.configure(p.pulling())
	s.reload()
	s.wait("it is good again", func(h status.Host) bool { return h.Manifest.Reason == "" && proxyOf(h, "m").IsReady() })
}
