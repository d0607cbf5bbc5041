//go:build web

package web

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// fenced gives the blocks of docs/protocol.md in a language, in order.
func fenced(t *testing.T, language string) []string {
	t.Helper()
	repo, err := kit.Repo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repo, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("docs/protocol.md has no block of %s", language)
	}
	return out
}

// documented is the manifest that docs/protocol.md shows, for kvm1.
func documented(t *testing.T) string { return fenced(t, "json")[0] }

// The config that docs/protocol.md shows leads to the site that it shows.
func TestDocumentedConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Decode("config.toml", []byte(fenced(t, "toml")[0]))
	if err != nil {
		t.Fatal(err)
	}
	want := "https://" + ServerName + "/manifests/" + host + ".json"
	if got := c.Manifest.For(c.Host.Name); got != want || c.Host.Name != host || c.TLS.Key == "" {
		t.Errorf("it asks for %s, want %s: %+v", got, want, c.TLS)
	}
}

// docs/protocol.md shows the site that the tests use, and its commands print
// what it says.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(Site, fenced(t, "nginx")[0]); d != "" {
		t.Errorf("docs/protocol.md has another site (-used +shown):\n%s", d)
	}
	s := newSite(t)
	dir, kvm1 := t.TempDir(), s.host(t, "kvm1", time.Hour)
	for name, data := range map[string]string{
		"kvm1.json": documented(t), "servers-ca.pem": string(s.servers.PEM()), "kvm1.pem": string(kvm1.Cert), "kvm1.key": string(kvm1.Key),
		".curlrc": fmt.Sprintf("connect-to = \"%s:443:127.0.0.1:%d\"\n", ServerName, s.Port),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.ReplaceAll(strings.Join(fenced(t, "sh"), ""), "/srv/egress", s.Root())
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", "umask 022; "+script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CURL_HOME="+dir, "HOME="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if d := cmp.Diff(strings.Join(fenced(t, "text"), ""), string(out)); d != "" || err != nil {
		t.Errorf("%v (-documented +printed):\n%s", err, d)
	}
}
