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
