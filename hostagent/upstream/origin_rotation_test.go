package upstream

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// whoIs answers with the name in the client's certificate.
func whoIs(_ int, w http.ResponseWriter, r *http.Request) {
	w.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName + " " + r.Proto))
}

// ask gets what the server answers.
func ask(t *testing.T, o *Origin) string {
	t.Helper()
	a, err := o.Get(t.Context(), Request{Limit: 1000})
	if err != nil {
		t.Error(err)
	}
	return string(a.Body)
}

// Case 142, and the trap that a certificate is asked for once a connection: a
// new pair is used at the next request, although the old connection is open,
// and the old one as long as the new one is half there.
func TestCase142_RotationOfTheClientCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := newServerWith(t, ca.server("origin", ca), whoIs)
	f := filesIn(t)
	f.Token = ""
	cert, key := ca.issue("old", time.Hour)
	put(t, f.CA, ca.pem())
	put(t, f.Cert, cert)
	put(t, f.Key, key)
	o := originOf(t, s, "", OriginOptions{Files: f})
	var got []string
	got = append(got, ask(t, o), ask(t, o))
	cert, key = ca.issue("new", time.Hour)
	put(t, f.Cert, cert[:len(cert)/2])
	got = append(got, ask(t, o))
	put(t, f.Cert, cert)
	got = append(got, ask(t, o))
	put(t, f.Key, key)
	got = append(got, ask(t, o))
	want := []string{"old HTTP/2.0", "old HTTP/2.0", "old HTTP/2.0", "old HTTP/2.0", "new HTTP/2.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	addresses := map[string]bool{}
	for _, r := range s.seen() {
		addresses[r.RemoteAddr] = true
	}
	if len(addresses) != 2 {
		t.Errorf("%d connections, want one for each pair", len(addresses))
	}
}

// A connection made with a former certificate is closed, not only left. Over
// HTTP/2 one whose last stream is just ending may be left, until it was idle for
// a while.
func TestRotationClosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	config := ca.server("origin", ca)
	config.NextProtos = []string{"http/1.1"}
	s := newServerWith(t, config, whoIs)
	r := newRelay(t, s.Listener.Addr().String())
	f := filesIn(t)
	f.Token = ""
	put(t, f.CA, ca.pem())
	o, err := NewOrigin("https://"+r.Addr().String(), OriginOptions{Files: f})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIdle(o)
	for _, name := range []string{"old", "new"} {
		cert, key := ca.issue(name, time.Hour)
		put(t, f.Cert, cert)
		put(t, f.Key, key)
		if got := ask(t, o); got != name+" HTTP/1.1" {
			t.Errorf("answer %q", got)
		}
	}
	select {
	case <-r.ended:
	case <-time.After(30 * time.Second):
		t.Error("the old connection stays open")
	}
}

// Case 142 for the CA: a server whose authority changed is believed once the
// file says so, and its former one no more.
func TestCase142_RotationOfTheCA(t *testing.T) {
	t.Parallel()
	old, renewed := newAuthority(t, "old"), newAuthority(t, "new")
	first := newServerWith(t, old.server("origin", nil), func(_ int, w http.ResponseWriter, _ *http.Request) { w.Write([]byte("first")) })
	f := Files{CA: put(t, filesIn(t).CA, renewed.pem())}
	o := originOf(t, first, "", OriginOptions{Files: f})
	var unknown *tls.CertificateVerificationError
	if _, err := o.Get(t.Context(), Request{}); !errors.As(err, &unknown) || ClassOf(err) != Permanent {
		t.Errorf("Get = %v", err)
	}
	put(t, f.CA, append(old.pem(), renewed.pem()...))
	if got := ask(t, o); got != "first" {
		t.Errorf("answer %q", got)
	}
	put(t, f.CA, renewed.pem())
	if _, err := o.Get(t.Context(), Request{}); !errors.As(err, &unknown) {
		t.Errorf("an open connection outlived its authority: %v", err)
	}
}

// Without any file there is an error that names it, and nothing is sent; what
// appears later is used.
func TestMissingCredentialsHeal(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := newServerWith(t, ca.server("origin", ca), whoIs)
	f := filesIn(t)
	o := originOf(t, s, "", OriginOptions{Files: f})
	_, err := o.Get(t.Context(), Request{})
	if ClassOf(err) != Transient || !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") || len(s.seen()) != 0 {
		t.Errorf("Get = %v", err)
	}
	for _, path := range []string{f.CA, f.Cert, f.Key, f.Token} {
		if !strings.Contains(err.Error(), path) && path != f.Key { // one error for the pair
			t.Errorf("%s is not named: %v", path, err)
		}
	}
	cert, key := ca.issue("host-1", time.Hour)
	put(t, f.CA, ca.pem())
	put(t, f.Cert, key)
	put(t, f.Key, key)
	put(t, f.Token, []byte("token"))
	if _, err := o.Get(t.Context(), Request{}); ClassOf(err) != Permanent {
		t.Errorf("with a key for a certificate: %v", err)
	}
	put(t, f.Cert, cert)
	if got := ask(t, o); got != "host-1 HTTP/2.0" {
		t.Errorf("answer %q", got)
	}
}

// A 401 in the middle of a rotation brings one more attempt with what the file
// holds now; one that nothing explains brings none.
func TestUnauthorizedReadsTheTokenAgain(t *testing.T) {
	t.Parallel()
	f := tokenFile(t, "old")
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			put(t, f.Token, []byte("new"))
		}
		if r.Header.Get("Authorization") != "Bearer new" || n > 2 {
			w.Header().Set("Date", hour.Add(-2*time.Minute).Format(http.TimeFormat))
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	o := originOf(t, s, "", OriginOptions{Files: f})
	if a, err := o.Get(t.Context(), Request{Limit: 1}); err != nil || a.Status != 200 || len(s.seen()) != 2 {
		t.Errorf("Get = %v after %d requests", err, len(s.seen()))
	}
	_, err := o.Get(t.Context(), Request{Limit: 1})
	var status *StatusError
	if !errors.As(err, &status) || status.Code != 401 || status.Skew != 2*time.Minute || len(s.seen()) != 3 {
		t.Errorf("Get = %v after %d requests", err, len(s.seen()))
	}
}

// Of two calls at once, one that read the files before the other does not bring
// the old certificate back.
func TestOlderCredentialsDoNotComeBack(t *testing.T) {
	t.Parallel()
	o, err := NewOrigin("https://origin.example/", OriginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	renewed := o.transport(set{links: 2})
	if o.transport(set{links: 1}) != renewed || o.transport(set{links: 3}) == renewed {
		t.Error("the transport does not follow the newest files")
	}
}
