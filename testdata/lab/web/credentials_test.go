//go:build web

package web

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// shows gives a condition of asks: a good answer to that certificate.
func shows(p Pair) func(Access) bool {
	serial := p.Serial()
	return func(a Access) bool { return a.Serial == serial && (a.Status == 200 || a.Status == 304) }
}

// within runs a wait and tells what it took, if that is more than was promised.
func (l *lane) within(promised time.Duration, what string, wait func()) {
	l.Helper()
	began := time.Now()
	wait()
	took := time.Since(began)
	l.Logf("%s: used after %s", what, took.Round(100*time.Millisecond))
	if took > promised {
		l.Errorf("%s: used after %s, want within %s", what, took, promised)
	}
}

// rotation is what is promised, and time for a busy machine.
const rotation = 10*time.Second + 5*time.Second

// TestCase142_ClientCertificate: a renewed certificate is used without a
// restart, the old pair as long as the new one is half there, and one that is
// refused deletes nothing.
func TestCase142_ClientCertificate(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")

	renewed := l.host(t, host, time.Hour)
	l.write("host.pem", renewed.Cert) // and for a while the key is the old one
	l.asks("with the old pair meanwhile", 1, shows(l.pair))
	if h := l.wait("status", func(status.Host) bool { return true }); !pulled(h).Synced {
		t.Errorf("a half-written pair is in the way: %+v", pulled(h))
	}
	l.write("host.key", renewed.Key)
	l.within(rotation, "the renewed pair", func() { l.asks("with the renewed pair", 1, shows(renewed)) })

	if err := os.WriteFile(l.path("host.key"), []byte("-----BEGIN PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.asks("with the good pair while the key is broken", 2, shows(renewed))
	l.show(renewed)

	for what, pair := range map[string]Pair{
		"400": stranger(t), "403": l.host(t, "kvm2", time.Hour),
	} {
		l.show(pair)
		l.trouble("a certificate that is refused", what)
		l.unchanged("refused with "+what, was)
		l.show(renewed)
		l.within(rotation, "the right certificate after "+what, func() { l.healed(what) })
	}
	l.show(l.host(t, host, -time.Hour))
	l.trouble("a certificate that has ended", "400")
	l.show(renewed)
	l.healed("a certificate that has ended")
	l.unchanged("all over", was)
}

// stranger is a host's certificate of an authority that nobody knows.
func stranger(t *testing.T) Pair {
	t.Helper()
	p, err := authority(t, "others").Client(host, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAuthorityRotation: the authority of the servers and that of the hosts are
// replaced, each in the way that needs no pause and in the way that does.
func TestAuthorityRotation(t *testing.T) {
	l := startLane(t, setting{})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")

	old, next := l.servers, authority(t, "new servers")
	l.write("ca.pem", slices.Concat(old.PEM(), next.PEM()))
	l.servers = next
	l.reload(l.certificate(t))
	l.asks("both authorities are believed", 2, shows(l.pair))
	l.write("ca.pem", next.PEM())
	l.asks("the new one alone", 1, shows(l.pair))

	l.servers = authority(t, "newest servers")
	l.reload(l.certificate(t))
	l.trouble("an authority that is not believed", "certificate")
	l.unchanged("an authority that is not believed", was)
	l.write("ca.pem", l.servers.PEM())
	l.within(rotation, "the authority", func() { l.healed("an authority that is not believed") })

	l.hosts = authority(t, "new hosts")
	l.reload(l.certificate(t))
	l.trouble("hosts' certificates are not known any more", "400")
	l.unchanged("hosts' certificates are not known any more", was)
	l.show(l.host(t, host, time.Hour))
	l.within(rotation, "the host's certificate", func() { l.healed("the new hosts' authority") })
	l.unchanged("all over", was)
}

// reload makes nginx use a certificate and the hosts' authority of now.
func (l *lane) reload(server Pair) {
	l.Helper()
	if err := l.Certify(server, l.hosts); err != nil {
		l.Fatal(err)
	}
	if err := l.Reload(server); err != nil {
		l.Fatal(err)
	}
}

// TestTokenRotation: a token that changes on disk is shown soon, and an agent
// whose token file is gone goes on with what it had.
func TestTokenRotation(t *testing.T) {
	l := startLane(t, setting{faults: true, token: "canary-token-one"})
	l.publish(plains("a")...)
	l.runs("a")
	shown := func(token string) {
		t.Helper()
		from := time.Now()
		l.wait("the token is "+token, func(status.Host) bool {
			return slices.ContainsFunc(l.proxy.Asked(from), func(a Asked) bool { return a.Header.Get("Authorization") == "Bearer "+token })
		})
	}
	shown("canary-token-one")
	l.write("token", []byte("canary-token-two\n"))
	l.within(rotation, "the token", func() { shown("canary-token-two") })
	if err := os.Remove(l.path("token")); err != nil {
		t.Fatal(err)
	}
	shown("canary-token-two")
	l.write("token", []byte("canary-token-three\n"))
	l.within(rotation, "the token", func() { shown("canary-token-three") })
}

// TestWithoutCredentials: an agent that starts without any of its credential
// files works on its directory, says what is missing and needs no restart.
func TestWithoutCredentials(t *testing.T) {
	l := newLane(t, setting{bare: true})
	l.publish(plains("a")...)
	l.start()
	if err := l.agent.Write("local.toml", localSpec); err != nil {
		t.Fatal(err)
	}
	l.runs("local")
	l.trouble("nothing is there", "ca.pem", "host.pem")
	if asked := l.Accesses(); len(asked) > 0 {
		t.Errorf("it asked without credentials: %+v", asked)
	}
	l.write("ca.pem", l.servers.PEM())
	l.trouble("the pair is missing", "host.pem")
	l.show(l.pair)
	l.within(rotation, "the files", func() { l.healed("missing files") })
	l.runs("a", "local")
}
