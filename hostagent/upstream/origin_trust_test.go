package upstream

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// tokenFile gives a file that holds token.
func tokenFile(t *testing.T, token string) Files {
	f := filesIn(t)
	return Files{Token: put(t, f.Token, []byte(token+"\n"))}
}

// Case 140 and invariant 12: what an origin is shown goes to no other scheme,
// host or port, whatever the redirect, and at the second attempt as little.
func TestI12_Case140_CredentialsStayAtTheOrigin(t *testing.T) {
	t.Parallel()
	reached := 0
	other := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { reached++ })
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer plain.Close()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "hush"})
		w.Header().Set("Location", r.URL.Query().Get("to"))
		switch r.URL.Path {
		case "/307":
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/308":
			w.WriteHeader(http.StatusPermanentRedirect)
		default:
			w.WriteHeader(http.StatusFound)
		}
	})
	_, ownPort, _ := strings.Cut(s.Listener.Addr().String(), ":")
	targets := map[string]string{
		"another port":        other.URL + "/?signature=hush",
		"plain http":          plain.URL,
		"its own port, plain": "http://" + s.Listener.Addr().String() + "/",
		"another name":        "https://localhost:" + ownPort + "/",
		"a sub-domain":        "https://sub.127.0.0.1.example:" + ownPort + "/",
		"no scheme":           "//" + other.Listener.Addr().String() + "/",
		"a user":              "https://user:hush@" + s.Listener.Addr().String() + "/",
		"another protocol":    "file:///etc/passwd",
		"unreadable":          "https://" + s.Listener.Addr().String() + "/%zz?signature=hush",
	}
	for name, to := range targets {
		for _, code := range []string{"/302", "/307", "/308"} {
			o := originOf(t, s, code+"?to="+url.QueryEscape(to), OriginOptions{Files: tokenFile(t, "hush-token")})
			before := len(s.seen())
			for range 2 {
				_, err := o.Get(t.Context(), Request{Limit: 1})
				if !isRedirect(err) || ClassOf(err) != Permanent || strings.Contains(err.Error(), "hush") {
					t.Errorf("%s by %s: %v", name, code, err)
				}
			}
			if n := len(s.seen()) - before; n != 2 {
				t.Errorf("%s by %s: %d requests", name, code, n)
			}
		}
	}
	if reached != 0 {
		t.Errorf("%d requests left the origin", reached)
	}
}

// A redirect within the origin keeps what the request asked for.
func TestI12_RedirectsWithinTheOriginAreFollowed(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "hush"})
		if r.URL.Path != "/there" {
			http.Redirect(w, r, "https://"+strings.ToUpper(r.Host)+"/there", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusNotModified)
	})
	o := originOf(t, s, "/here?signature=hush", OriginOptions{Files: tokenFile(t, "token")})
	if a, err := o.Get(t.Context(), Request{ETag: `"x"`, Wait: time.Second}); err != nil || a.Status != 304 {
		t.Fatalf("Get = %+v, %v", a, err)
	}
	h := s.seen()[1].Header
	for name, want := range map[string]string{
		"Authorization": "Bearer token", "If-None-Match": `"x"`, "Prefer": "wait=1", "Accept-Encoding": "gzip", "Referer": "", "Cookie": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s = %q after the redirect, want %q", name, got, want)
		}
	}
}

func TestRedirectsWithinTheOriginAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
	_, err := originOf(t, s, "", OriginOptions{}).Get(t.Context(), Request{})
	if n := len(s.seen()); !isRedirect(err) || n != 1+maxRedirects {
		t.Errorf("%v after %d requests", err, n)
	}
}

// The guard knows its origin however it is written.
func TestI12_TheGuardLetsNothingElsewhere(t *testing.T) {
	t.Parallel()
	origin, err := url.Parse("https://origin.example/")
	if err != nil {
		t.Fatal(err)
	}
	token := "hush"
	for to, ok := range map[string]bool{
		"https://ORIGIN.example:443/other": true,
		"https://origin.example:8443/":     false,
		"http://origin.example:443/":       false,
		"https://sub.origin.example/":      false,
		"https://origin.example./":         false,
	} {
		sent := ""
		g := &guard{origin: origin, token: secret{&token}, base: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("Authorization")
			return nil, errTest
		})}
		req := httptest.NewRequest(http.MethodGet, to, nil)
		_, err := g.RoundTrip(req)
		if errors.Is(err, errTest) != ok || (sent == "Bearer hush") != ok || isRedirect(err) == ok || req.Header.Get("Authorization") != "" {
			t.Errorf("%s: %v, sent %q", to, err, sent)
		}
	}
}

// TestI12_NoSecretInAnError: the token, the query and the key, when everything
// that can go wrong does, and when the server repeats what it was asked with.
func TestI12_NoSecretInAnError(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	f := filesIn(t)
	cert, key := ca.issue("host-1", time.Hour)
	put(t, f.CA, ca.pem())
	put(t, f.Cert, cert)
	put(t, f.Key, key)
	put(t, f.Token, []byte("canary-token"))
	const echo = "canary-token canary/query canary%2Fquery signature=canary%2Fquery"
	answers := map[string]func(w http.ResponseWriter){
		"problem": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.WriteHeader(403)
			w.Write([]byte(`{"type":"urn:` + echo + `","title":"` + echo + `","detail":"no ` + echo + `\u001b[31m\n` + strings.Repeat("long ", 200) + `"}`))
		},
		"no HTTP":       func(w http.ResponseWriter) { cut(t, w, echo+"\r\n\r\n") },
		"broken header": func(w http.ResponseWriter) { cut(t, w, "HTTP/1.1 200 OK\r\n"+echo+"\r\n\r\n") },
		"broken length": func(w http.ResponseWriter) { cut(t, w, "HTTP/1.1 200 OK\r\nContent-Length: "+echo+"\r\n\r\n") },
		"broken coding": func(w http.ResponseWriter) { cut(t, w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+echo+"\r\n\r\n") },
		"broken chunk": func(w http.ResponseWriter) {
			cut(t, w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+echo+"\r\n\r\n")
		},
		"broken redirect": func(w http.ResponseWriter) {
			cut(t, w, "HTTP/1.1 302 Found\r\nLocation: https://%zz/canary-token?signature=canary\r\n\r\n")
		},
		"redirect": func(w http.ResponseWriter) {
			cut(t, w, "HTTP/1.1 302 Found\r\nLocation: https://other.example/canary-token?signature=canary\r\n\r\n")
		},
		"long line": func(w http.ResponseWriter) {
			cut(t, w, "HTTP/1.1 200 OK\r\n"+strings.Repeat("long", 5000)+"\r\n\r\n")
		},
		"closed": func(w http.ResponseWriter) { cut(t, w, "") },
	}
	for name, answer := range answers {
		config := ca.server("origin", ca)
		config.NextProtos = []string{"http/1.1"}
		s := newServerWith(t, config, func(_ int, w http.ResponseWriter, _ *http.Request) { answer(w) })
		_, err := originOf(t, s, "/m?signature=canary%2Fquery", OriginOptions{Files: f}).Get(t.Context(), Request{Limit: 1000})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		var status *StatusError
		text := err.Error()
		if errors.As(err, &status) {
			text += status.Error() + status.Problem.Detail
		}
		if strings.Contains(text, "canary") || strings.ContainsAny(text, "\n\x1b") || len(text) > 1500 {
			t.Errorf("%s: %d bytes: %q", name, len(text), text)
		}
	}
}

// Plain http goes only where it was allowed, and carries the token there.
func TestPlainHTTPWhenAllowed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Header.Get("Authorization"))) }))
	defer s.Close()
	o, err := NewOrigin(s.URL, OriginOptions{InsecureHTTP: true, Files: tokenFile(t, "token")})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := o.Get(t.Context(), Request{Limit: 100}); err != nil || string(a.Body) != "Bearer token" {
		t.Errorf("Get = %q, %v", a.Body, err)
	}
}

func TestOriginRefusesOldTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	config := ca.server("origin", nil)
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	s := newServerWith(t, config, func(int, http.ResponseWriter, *http.Request) {})
	f := filesIn(t)
	o := originOf(t, s, "", OriginOptions{Files: Files{CA: put(t, f.CA, ca.pem())}})
	if _, err := o.Get(t.Context(), Request{}); err == nil || len(s.seen()) != 0 {
		t.Errorf("Get = %v", err)
	}
}
