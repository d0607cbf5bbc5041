//go:build web

package web

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// site is an nginx that serves, with the two authorities behind it.
type site struct {
	*Nginx
	servers, hosts *Authority
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{servers: authority(t, "servers"), hosts: authority(t, "hosts")}
	n, err := NewNginx(s.certificate(t), s.hosts)
	if err != nil {
		t.Fatal(err)
	}
	s.Nginx = n
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("nginx:\n%s", n.Errors())
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	a, err := NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *site) certificate(t *testing.T) Pair {
	t.Helper()
	p, err := s.servers.Server(ServerName)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// host is the certificate of a host by that name.
func (s *site) host(t *testing.T, name string, holds time.Duration) Pair {
	t.Helper()
	p, err := s.hosts.Client(name, holds)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *site) publish(t *testing.T, host, text string) {
	t.Helper()
	if err := s.Publish(host, text); err != nil {
		t.Fatal(err)
	}
}

// get asks for a URL with a pair and an entity tag, which may be empty.
func (s *site) get(t *testing.T, url string, pair Pair, tag string) (*http.Response, string) {
	t.Helper()
	resp, body, err := s.try(t, patience, url, pair, tag)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// try is get for what may fail, within some time.
func (s *site) try(t *testing.T, within time.Duration, url string, pair Pair, tag string) (*http.Response, string, error) {
	t.Helper()
	c, err := Client(s.servers, pair)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp, string(body), err
}

// The site lets in whom it should, and its entity tags do what they are for.
func TestSite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const text = `{"what": "kvm1's manifest"}`
	s.publish(t, "kvm1", text)
	url, kvm1 := s.URL("/manifests/kvm1.json"), s.host(t, "kvm1", time.Hour)
	resp, body := s.get(t, url, kvm1, "")
	tag := resp.Header.Get("ETag")
	if resp.StatusCode != 200 || body != text || tag == "" || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v, %q", resp, body)
	}
	stranger, err := authority(t, "others").Client("kvm1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, path string
		pair       Pair
		tag        string
		code       int
	}{
		{"unchanged", "/manifests/kvm1.json", kvm1, tag, 304},
		{"another's manifest", "/manifests/kvm2.json", kvm1, "", 403},
		{"no manifest", "/manifests/kvm2.json", s.host(t, "kvm2", time.Hour), "", 404},
		{"no such place", "/", kvm1, "", 404},
		{"no certificate", "/manifests/kvm1.json", Pair{}, "", 400},
		{"another authority's", "/manifests/kvm1.json", stranger, "", 400},
		{"one that has ended", "/manifests/kvm1.json", s.host(t, "kvm1", -time.Hour), "", 400},
	} {
		if resp, body := s.get(t, s.URL(c.path), c.pair, c.tag); resp.StatusCode != c.code {
			t.Errorf("%s: %s, want %d: %s", c.what, resp.Status, c.code, body)
		}
	}
	var last Access
	if log := s.Accesses(); len(log) > 0 {
		last = log[1]
	}
	if want := (Access{Client: "CN=kvm1", Serial: kvm1.Serial(), Method: "GET", Path: "/manifests/kvm1.json", Status: 304, ETag: strings.ReplaceAll(tag, `"`, `\x22`)}); last != want {
		t.Errorf("logged: %+v, want %+v", last, want)
	}

	renewed := s.certificate(t)
	if err := s.Certify(renewed, s.hosts); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(renewed); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.try(t, patience, url, kvm1, ""); err == nil {
		t.Error("it answers after its end")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := s.get(t, url, kvm1, tag); resp.StatusCode != 304 {
		t.Errorf("started again: %s", resp.Status)
	}
}
