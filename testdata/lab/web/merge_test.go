//go:build web

package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// origin tells where a proxy's spec comes from, in status.
func origin(name, from string) func(status.Host) bool {
	return func(h status.Host) bool { return proxyOf(h, name).Origin == from }
}

// TestMerge: of a name in both sources the file counts; it goes over to the
// manifest and back, with an equal spec, without anything happening to the VM.
func TestMerge(t *testing.T) {
	l := startLane(t, setting{})
	if err := l.agent.Write("both.toml", localSpec); err != nil {
		t.Fatal(err)
	}
	if err := l.agent.Write("local.toml", localSpec); err != nil {
		t.Fatal(err)
	}
	was := l.runs("both", "local")
	l.publish(plain("both"), plain("pulled"))
	was["pulled"] = l.runs("both", "local", "pulled")["pulled"]
	l.wait("the manifest's is shadowed", func(h status.Host) bool {
		return origin("both", "dir")(h) && slices.Equal(pulled(h).Shadowed, []string{"both"})
	})
	if out, _ := l.agent.CLI("status"); !strings.Contains(out, "shadowed by a file of the same name: both\n") {
		t.Errorf("status does not say what is shadowed:\n%s", out)
	}
	l.unchanged("in both", was)

	if err := l.agent.Remove("both.toml"); err != nil {
		t.Fatal(err)
	}
	h := l.wait("the manifest counts", origin("both", "manifest"))
	if got := pulled(h).Shadowed; len(got) > 0 {
		t.Errorf("still shadowed: %v", got)
	}
	l.runs("both", "local", "pulled")
	l.unchanged("from file to manifest", was)
	l.asks("time goes by", 1, answered(304))
	l.unchanged("from file to manifest, later", was)

	if err := l.agent.Write("both.toml", localSpec); err != nil {
		t.Fatal(err)
	}
	l.wait("the file counts again", origin("both", "dir"))
	l.publish(plain("pulled"))
	l.wait("nothing is shadowed", func(h status.Host) bool { return pulled(h).Proxies == 1 })
	l.unchanged("from manifest to file", was)

	if err := l.agent.Remove("both.toml"); err != nil {
		t.Fatal(err)
	}
	l.runs("local", "pulled")
	delete(was, "both")
	l.unchanged("gone from both", was)
}

// TestI02_MergeInDoubt: while the manifest is in doubt a file that goes deletes
// its proxy only if the manifest did not list it.
func TestI02_MergeInDoubt(t *testing.T) {
	l := startLane(t, setting{})
	for _, name := range []string{"both", "local", "other"} {
		if err := l.agent.Write(name+".toml", localSpec); err != nil {
			t.Fatal(err)
		}
	}
	l.publish(plain("both"), plain("pulled"))
	was := l.runs("both", "local", "other", "pulled")
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	l.trouble("nginx is away", "refused")
	if err := l.agent.Remove("both.toml"); err != nil {
		t.Fatal(err)
	}
	l.wait("the manifest counts", origin("both", "manifest"))
	l.unchanged("from file to manifest", was)
	if err := l.agent.Remove("local.toml"); err != nil {
		t.Fatal(err)
	}
	l.runs("both", "other", "pulled")
	delete(was, "local")
	l.unchanged("a file went", was)
}

// TestPolicyBindsManifests: what the host's config does not allow to manifests
// refuses the whole document, while files may have it.
func TestPolicyBindsManifests(t *testing.T) {
	l := startLane(t, setting{more: "[manifest.policy]\nmax_proxies = 2\n"})
	l.publish(plains("a", "b")...)
	was := l.runs("a", "b")
	for what, c := range map[string]struct {
		proxies []object
		says    []string
	}{
		"too many":        {plains("a", "b", "c"), []string{"proxies", "2"}},
		"a bridge":        {[]object{plain("a"), plain("b").with("network", []object{{"bridge": "br0"}})}, []string{"br0"}},
		"no cleanup":      {[]object{plain("a"), plain("b").with("skip_cleanup", true)}, []string{"skip_cleanup"}},
		"a file":          {[]object{plain("a"), {"name": "b", "image": "debian-12", "machine_type": "small", "user_data_file": "/etc/shadow"}}, []string{"user_data_file"}},
		"a probe's host":  {[]object{plain("a").with("probe", object{"type": "http", "url": "http://metadata.example/"})}, []string{"probe"}},
		"an unknown size": {[]object{plain("a").with("machine_type", "huge")}, []string{"huge"}},
	} {
		l.publish(c.proxies...)
		l.trouble(what, c.says...)
		l.unchanged(what, was)
	}
	l.publish(plains("a", "b")...)
	l.healed("all of that")
	for name, spec := range map[string]string{"third": localSpec, "fourth": localSpec + "skip_cleanup = true\n"} {
		if err := l.agent.Write(name+".toml", spec); err != nil {
			t.Fatal(err)
		}
	}
	now := l.runs("a", "b", "third", "fourth")
	was["third"], was["fourth"] = now["third"], now["fourth"]
	l.unchanged("files", was)
}
