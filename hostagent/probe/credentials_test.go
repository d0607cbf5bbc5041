package probe_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
)

var withCredentials = []string{probe.TypeHTTP, probe.TypeConnect, probe.TypeSOCKS5}

func TestCredentialsAreSent(t *testing.T) {
	t.Parallel()
	far := echo(t, false).Listener.Addr().String()
	for content, want := range map[string]string{
		"user:pass\n": "user:pass", "user:pass\r\n": "user:pass", "user:a:b": "user:a:b", "user:": "user:", "user: päss ": "user: päss ",
	} {
		for _, typ := range withCredentials {
			p := newProxy(t, far, want)
			got := probe.Prober{}.Probe(t.Context(), probe.Target{
				Addr: peer(t, "127.0.0.1:0", p.serve(typ)), Type: typ, URL: askFor, ExpectStatus: 200, Credentials: credentials(t, content),
			})
			if !got.OK {
				t.Errorf("%s with %q: got %+v, want OK", typ, content, got)
				continue
			}
			if d := cmp.Diff(want, <-p.loggedIn); d != "" {
				t.Errorf("%s with %q: (-want +got):\n%s", typ, content, d)
			}
		}
	}
}

func TestWrongOrNoCredentials(t *testing.T) {
	t.Parallel()
	far := echo(t, false).Listener.Addr().String()
	for _, path := range []string{"", credentials(t, "user:wrong")} {
		for _, typ := range withCredentials {
			got := probe.Prober{}.Probe(t.Context(), probe.Target{
				Addr: peer(t, "127.0.0.1:0", newProxy(t, far, "user:right").serve(typ)), Type: typ, URL: askFor, ExpectStatus: 200, Credentials: path,
			})
			if got.Reason != probe.ReasonProxyAuthRequired || got.Void() || !strings.Contains(got.Detail, path) {
				t.Errorf("%s with file %q: got %+v, want %s and the file named", typ, path, got, probe.ReasonProxyAuthRequired)
			}
		}
	}
}

// The probe is not made, and is made as soon as the file is right.
func TestUnusableCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ path, want string }{
		"missing":       {filepath.Join(dir, "missing"), probe.ReasonCredentialsMissing},
		"beneath none":  {"/dev/null/x", probe.ReasonCredentialsMissing},
		"pipe":          {fifo, probe.ReasonBadCredentials},
		"device":        {"/dev/zero", probe.ReasonBadCredentials},
		"directory":     {dir, probe.ReasonBadCredentials},
		"empty":         {credentials(t, ""), probe.ReasonBadCredentials},
		"no colon":      {credentials(t, "hunter2\n"), probe.ReasonBadCredentials},
		"no user":       {credentials(t, ":hunter2\n"), probe.ReasonBadCredentials},
		"two lines":     {credentials(t, "user:hunter2\nmore\n"), probe.ReasonBadCredentials},
		"NUL":           {credentials(t, "user:hunter2\x00"), probe.ReasonBadCredentials},
		"long user":     {credentials(t, strings.Repeat("u", 256)+":hunter2"), probe.ReasonBadCredentials},
		"long password": {credentials(t, "user:"+strings.Repeat("hunter2", 40)), probe.ReasonBadCredentials},
		"huge":          {credentials(t, "user:"+strings.Repeat("hunter2", 1<<10)), probe.ReasonBadCredentials},
	} {
		for _, typ := range withCredentials {
			accepted := make(chan struct{}, 1)
			target := targetOf(typ)
			target.Addr, target.Credentials = peer(t, "127.0.0.1:0", func(net.Conn) { accepted <- struct{}{} }), tt.path
			got := probe.Prober{}.Probe(t.Context(), target)
			if got.OK || got.Reason != tt.want || !got.Void() || got.Detail == "" || strings.Contains(got.Detail, "hunter2") {
				t.Errorf("%s: %s: got %+v, want %s", typ, name, got, tt.want)
			}
			if len(accepted) > 0 {
				t.Errorf("%s: %s: the proxy was connected to", typ, name)
			}
		}
	}
}

func TestCredentialsHealByThemselves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	p := newProxy(t, echo(t, false).Listener.Addr().String(), "user:right")
	target := probe.Target{Addr: peer(t, "127.0.0.1:0", p.socks5), Type: probe.TypeSOCKS5, Dest: "connectivity.example:80", Credentials: path}
	var reasons []string
	try := func() { reasons = append(reasons, probe.Prober{}.Probe(t.Context(), target).Reason) }
	try()
	for _, content := range []string{"user:wrong", "user:right"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		try()
	}
	if d := cmp.Diff([]string{probe.ReasonCredentialsMissing, probe.ReasonProxyAuthRequired, ""}, reasons); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The proxy, which gets to know the password, may say it again.
func TestI12_ThePasswordIsInNoResult(t *testing.T) {
	t.Parallel()
	const password = "canary-hunter2"
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + password))
	path := credentials(t, "user:"+password+"\n")
	for _, repeated := range []string{password, basic} {
		for name, sends := range map[string]string{
			"407":          "HTTP/1.1 407 " + repeated + "\r\nContent-Length: 0\r\n\r\n",
			"status":       "HTTP/1.1 503 " + repeated + "\r\nContent-Length: 0\r\n\r\n",
			"bad status":   "HTTP/1.1 " + repeated + "\r\n\r\n",
			"bad protocol": repeated + "\r\n\r\n",
			"bad header":   "HTTP/1.1 200 OK\r\n" + repeated + "\r\n\r\n",
			"bad length":   "HTTP/1.1 200 OK\r\nContent-Length: " + repeated + "\r\n\r\n",
			"bad body":     "HTTP/1.1 204 OK\r\nTransfer-Encoding: " + repeated + "\r\n\r\n",
			"SOCKS":        "\x05\x02\x01\x00\x05" + repeated,
			"log-in":       "\x05\x02\x01\x01" + repeated,
			"through":      "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 " + repeated + " x\r\n\r\n",
		} {
			for _, typ := range withCredentials {
				target := probe.Target{Type: typ, URL: askFor, ExpectStatus: 204, Credentials: path}
				target.Addr = peer(t, "127.0.0.1:0", answering(sends, false))
				got := probe.Prober{Timeout: time.Minute}.Probe(t.Context(), target)
				var log strings.Builder
				slog.New(slog.NewJSONHandler(&log, nil)).Info("probed", "target", target, "result", got)
				for _, text := range []string{fmt.Sprintf("%+v %#v", got, got), fmt.Sprintf("%+v", target), log.String()} {
					if strings.Contains(text, password) || strings.Contains(text, basic) {
						t.Errorf("%s: %s: the password is in %s", typ, name, text)
					}
				}
			}
		}
	}
}
