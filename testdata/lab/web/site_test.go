//go:build web

package web

import (
	"compress/gzip"
	"context"
	"errors"
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

// newProxy is a proxy before the site, which tells nginx that it is kvm1.
func (s *site) newProxy(t *testing.T) *Proxy {
	t.Helper()
	p, err := NewProxy(s.certificate(t), s.hosts, Backend{Nginx: s.Nginx, CA: s.servers, Pair: s.host(t, "kvm1", time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Each fault does what it says, and none is left when it is taken away.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	text := `{"what": "` + strings.Repeat("kvm1's manifest ", 10) + `"}`
	s.publish(t, "kvm1", text)
	p, kvm1 := s.newProxy(t), s.host(t, "kvm1", time.Hour)
	url := p.URL + "/manifests/kvm1.json"
	good, _ := s.get(t, url, kvm1, "")
	tag := good.Header.Get("ETag")
	broken := func(fail func(error) bool) func(*http.Response, string, error) bool {
		return func(_ *http.Response, _ string, err error) bool { return err != nil && fail(err) }
	}
	late := broken(func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
	short := broken(func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) })
	answers := func(code int, want string) func(*http.Response, string, error) bool {
		return func(r *http.Response, body string, err error) bool {
			return err == nil && r.StatusCode == code && body == want
		}
	}
	for name, c := range map[string]struct {
		fault Fault
		seen  func(*http.Response, string, error) bool
		late  bool // nothing ever comes
	}{
		"reset":      {fault: Reset(), seen: broken(func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) })},
		"black hole": {BlackHole(), late, true}, "silent": {Silent(), late, true}, "drip": {Drip(10 * time.Millisecond), late, true},
		"slow":        {fault: Slow(4, 10*time.Millisecond), seen: answers(200, text)},
		"truncated":   {fault: Truncated(true), seen: short},
		"cut chunks":  {fault: Truncated(false), seen: short},
		"half":        {fault: Half(), seen: answers(200, text[:len(text)/2])},
		"oversized":   {fault: Oversized(1000, false), seen: answers(200, "{"+strings.Repeat(" ", 1000)+"}")},
		"bomb":        {fault: Oversized(1<<20, true), seen: answers(200, "{"+strings.Repeat(" ", 1<<20)+"}")},
		"redirect":    {fault: Redirect(307, "https://other.example/"), seen: answers(307, "")},
		"unavailable": {fault: Answer(503, http.Header{"Retry-After": {"3600"}}, "later"), seen: answers(503, "later")},
		"tag": {fault: ETag(func(tag string) string { return "W/" + tag }), seen: func(r *http.Response, body string, _ error) bool {
			return r != nil && r.Header.Get("ETag") == "W/"+tag && body == text
		}},
		"no tag": {fault: ETag(func(string) string { return "" }), seen: func(r *http.Response, body string, _ error) bool {
			return r != nil && len(r.Header["Etag"]) == 0 && body == text
		}},
		"body": {fault: Body(strings.ToUpper), seen: answers(200, strings.ToUpper(text))},
	} {
		p.Set(c.fault)
		within := patience
		if c.late {
			within = time.Second
		}
		if r, body, err := s.try(t, within, url, kvm1, tag); !c.seen(r, body, err) {
			t.Errorf("%s: %+v, %.100q, %v", name, r, body, err)
		}
		p.Set(Fault{})
		if r, _ := s.get(t, url, kvm1, tag); r.StatusCode != 304 {
			t.Errorf("after %s: %s", name, r.Status)
		}
	}
	if all := p.Asked(time.Time{}); len(all) == 0 || !all[0].Client {
		t.Errorf("asked: %v", all)
	}
}

// A bomb is as small as it looks.
func TestBombIsPacked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.newProxy(t)
	p.Set(Oversized(1<<20, true))
	c, err := Client(s.servers, s.host(t, "kvm1", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	c.Transport.(*http.Transport).DisableCompression = true
	resp, err := c.Get(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ContentLength <= 0 || resp.ContentLength > 4<<10 {
		t.Fatalf("%d bytes", resp.ContentLength)
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); err != nil || n != 1<<20+2 {
		t.Fatalf("%d bytes unpacked, %v", n, err)
	}
}
