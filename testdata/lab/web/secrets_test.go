//go:build web

package web

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestI12_Canaries: token, client key, user-data and variables turn up in no
// log, in no command's output, and in no file that others can read, through good
// times and bad, even if a server repeats them.
func TestI12_Canaries(t *testing.T) {
	const token, userData, variable = "canary-token-7391", "canary-user-data-4820", "canary-variable-5512"
	l := startLane(t, setting{faults: true, token: token})
	secretive := func() object {
		return plain("a").with("user_data", "#cloud-config\n# "+userData+"\n").with("vars", object{"secret": variable})
	}
	l.publish(secretive())
	l.runs("a")
	l.publish(secretive().with("user_date", userData))
	l.trouble("an unknown key", "user_date")
	l.publish(secretive().with("user_data", []string{userData}).with("vars", variable))
	l.trouble("wrong types", "user_data", "vars")
	l.publish(secretive())
	l.healed("wrong documents")
	for _, f := range []Fault{
		Half(),
		Body(func(s string) string { return strings.Replace(s, "#cloud-config", "\x01", 1) }),
		Body(func(s string) string { return strings.Replace(s, variable, variable+`","secret":"`+variable, 1) }),
		Answer(403, typed("application/problem+json"), `{"type":"about:blank","title":"no","detail":"not with Bearer `+token+`"}`),
		Redirect(302, "https://"+token+"@elsewhere.example/"+token+"?t="+token),
	} {
		from := time.Now()
		l.proxy.Set(f)
		l.wait("another trouble", func(h status.Host) bool { return len(l.proxy.Asked(from)) >= 1 && !pulled(h).Synced })
	}
	l.proxy.Set(Fault{})
	l.healed("all of that")
	l.write("token", []byte("two lines\n"+token+"\n"))
	l.write("host.key", []byte("-----BEGIN PRIVATE KEY-----\n"+token+"\n-----END PRIVATE KEY-----\n"))
	from := time.Now()
	l.wait("two more requests", func(status.Host) bool { return len(l.proxy.Asked(from)) >= 2 })

	found := l.leaks(token, userData, variable, strings.Split(string(l.pair.Key), "\n")[1])
	for _, where := range found {
		t.Error(where)
	}
	if err := os.WriteFile(filepath.Join(l.agent.Place.Home, "leak"), []byte(token), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := l.leaks(token); len(got) != len(found)+1 {
		t.Errorf("the search does not find what is there: %v", got)
	}
}

// TestI12_QueryOfTheURL: a secret in the manifest's URL is refused, and not
// repeated.
func TestI12_QueryOfTheURL(t *testing.T) {
	t.Parallel()
	const secret = "canary-query-6160"
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "[manifest]\nurl = \"https://" + ServerName + "/manifest.json?sig=" + secret + "\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"validate", path}, {"--config", path, "run"}, {"--config", path, "doctor"}} {
		out, err := exec.Command(shared.agent, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "token_file") {
			t.Errorf("%v does not refuse it, or not well: %v\n%s", args, err, out)
		}
		if strings.Contains(string(out), secret) {
			t.Errorf("%v repeats the secret:\n%s", args, out)
		}
	}
}

// leaks tells where secrets are that should not be.
func (l *lane) leaks(secrets ...string) (found []string) {
	l.Helper()
	look := func(where, text string) {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				found = append(found, fmt.Sprintf("%s holds %s", where, s))
			}
		}
	}
	look("the log", l.agent.LogText(0))
	for _, args := range [][]string{{"status"}, {"status", "a"}, {"status", "--json"}, {"list"}, {"list", "--format", "json"}, {"plan"}, {"doctor"}} {
		out, _ := l.agent.CLI(args...) // what they find is not asked here
		if out == "" {
			l.Errorf("%v says nothing", args)
		}
		look(strings.Join(args, " "), out)
	}
	h, err := l.agent.Status()
	if err != nil {
		l.Fatal(err)
	}
	whole, err := json.Marshal(h)
	if err != nil {
		l.Fatal(err)
	}
	look("the control API", string(whole))
	for _, file := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", l.agent.PID(), file))
		if err != nil {
			l.Fatal(err)
		}
		look("the process's "+file, string(data))
	}
	for _, path := range l.readable() {
		data, err := os.ReadFile(path)
		if err != nil {
			l.Fatal(err)
		}
		look(path, string(data))
	}
	return found
}

// readable lists the files of the agent that every user can come to and read.
func (l *lane) readable() (paths []string) {
	l.Helper()
	err := filepath.WalkDir(l.agent.Place.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir() && info.Mode().Perm()&0o001 == 0:
			return filepath.SkipDir
		case info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 && filepath.Base(path) != "agent.log":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
	return paths
}
