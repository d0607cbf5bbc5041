package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// cli runs a command line and gives what it printed and its exit code.
func cli(t *testing.T, args ...string) (string, int) {
	t.Helper()
	c := root()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	if err == nil {
		return out.String(), 0
	}
	var coded *codedError
	if errors.As(err, &coded) {
		return out.String() + err.Error(), coded.code
	}
	return out.String() + err.Error(), exitError
}

// files writes files into a new directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const cliConfig = `[host]
id = "host-1"
[images.debian]
source = "/images/debian.qcow2"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
[machine_types.small]
cpus = 1
memory = "256MiB"
`

func TestValidate(t *testing.T) {
	dir := files(t, map[string]string{
		"config.toml": cliConfig, "good.toml": goodSpec, "bad.toml": "image = \"nosuch\"\ncpus = 2.0\n",
		"-rf.toml": goodSpec, "script.toml": strings.Replace(goodSpec, "#cloud-config", "no header", 1),
		"bad/config.toml": "[libvrt]\n",
	})
	conf := filepath.Join(dir, "config.toml")
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"good", []string{"-c", conf, "validate", at("good.toml")}, 0, []string{"good.toml: ok"}},
		{"all problems at once, in place", []string{"-c", conf, "validate", at("bad.toml"), at("good.toml")}, 1,
			[]string{"bad.toml:1:1: image", "debian", "bad.toml:2:1: cpus", "good.toml: ok", "1 of 2 files"}},
		{"a name says what would happen", []string{"-c", conf, "validate", at("-rf.toml")}, 1, []string{"-rf"}},
		{"a warning is no error", []string{"-c", conf, "validate", at("script.toml")}, 0, []string{"script.toml: warning"}},
		{"the configuration", []string{"-c", conf, "validate", conf}, 0, []string{"ok"}},
		{"a broken configuration ends everything else", []string{"-c", at("bad/config.toml"), "validate", at("good.toml")}, exitConfig,
			[]string{"bad/config.toml:1:", "libvrt"}},
		{"a configuration that is not there", []string{"-c", at("none.toml"), "validate", at("good.toml")}, exitConfig, []string{"none.toml"}},
		{"no file", []string{"-c", conf, "validate"}, exitUsage, []string{"validate FILE", "--help"}},
		{"an argument too many", []string{"status", "a", "b"}, exitUsage, []string{"status [NAME]", "--help"}},
		{"an unknown command", []string{"bogus"}, exitUsage, []string{"bogus", "--help"}},
		{"an unknown command of a command", []string{"seed", "bogus"}, exitUsage, []string{"bogus", "--help"}},
		{"an unknown flag", []string{"validate", "--nosuch"}, exitUsage, []string{"--help"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, code := cli(t, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestSeedBuildAndInspect(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // staging sets it; the test puts it back
	const user = "#cloud-config\n# version: 1.10"
	dir := files(t, map[string]string{
		"config.toml": cliConfig, "u.yaml": user,
		"p.toml": "image = \"debian\"\nmachine_type = \"small\"\nuser_data_file = \"u.yaml\"\n",
	})
	conf, iso := filepath.Join(dir, "config.toml"), filepath.Join(dir, "p.iso")
	if out, code := cli(t, "-c", conf, "seed", "build", "-o", iso, filepath.Join(dir, "p.toml")); code != 0 {
		t.Fatal(out)
	}
	if st, err := os.Stat(iso); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if out, code := cli(t, "seed", "inspect", "--show", "user-data", iso); code != 0 || out != user {
		t.Errorf("%d: %q", code, out)
	}
	out, code := cli(t, "seed", "inspect", iso)
	if code != 0 || !strings.Contains(out, "label cidata") || !strings.Contains(out, "vendor-data") || strings.Contains(out, "1.10") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := cli(t, "seed", "inspect", conf); code != exitError || !strings.Contains(out, conf) {
		t.Errorf("not an image: %d, %s", code, out)
	}
}

func TestStatusWithoutAgent(t *testing.T) {
	dir := files(t, map[string]string{"config.toml": cliConfig + "[control]\nsocket = \"/nonexistent/control.sock\"\n"})
	for _, args := range [][]string{{"status"}, {"status", "x"}, {"list"}} {
		out, code := cli(t, append([]string{"-c", filepath.Join(dir, "config.toml")}, args...)...)
		if code != exitNotRunning || !strings.Contains(out, "start it") {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
	if out, code := cli(t, "list", "--format", "xml"); code != exitUsage || !strings.Contains(out, "urls or json") {
		t.Errorf("%d, %s", code, out)
	}
}

// TestPlanChangesNothing: a dry run tells the first steps and takes none.
func TestPlanChangesNothing(t *testing.T) {
	uri := virttest.NodeURI(t, virttest.ForeignDomains()...)
	dir := files(t, map[string]string{"specs/p.toml": goodSpec, "specs/bad.toml": "cpus = 2.0\n", "tree/.keep": ""})
	if err := os.Remove(filepath.Join(dir, "tree", ".keep")); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("%s[libvirt]\nuri = %q\n[specs]\ndir = \"%[3]s/specs\"\n[tree]\nroot = \"%[3]s/tree\"\n[state]\ndir = \"%[3]s/state\"\n", cliConfig, uri, dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	out, code := cli(t, "-c", conf, "plan")
	if code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	for _, want := range []string{": init-tree: image tree is empty and new", "bad.toml:1:1"} {
		if !strings.Contains(out, want) {
			t.Errorf("plan lacks %q:\n%s", want, out)
		}
	}
	if got := listing(t, dir); got != before {
		t.Errorf("plan changed files:\n%s\nwere:\n%s", got, before)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintf(&out, "%s %v %d %v\n", path, fi.Mode(), fi.Size(), fi.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestOnlyRegularFilesAreRead: a pipe would be waited for without end.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := files(t, map[string]string{"config.toml": cliConfig, "good.toml": goodSpec})
	fifo := filepath.Join(dir, "f.toml")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "config.toml")
	for _, args := range [][]string{
		{"-c", conf, "validate", fifo, filepath.Join(dir, "good.toml")}, {"-c", conf, "seed", "build", fifo},
		{"seed", "inspect", fifo}, {"-c", fifo, "validate", filepath.Join(dir, "good.toml")},
	} {
		out, code := cli(t, args...)
		if code == 0 || !strings.Contains(out, "not a regular file") {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
}

func TestI17_FileNamesAreEscaped(t *testing.T) {
	dir := files(t, map[string]string{"config.toml": cliConfig, "esc\x1b[31mred.toml": "x = 1\n"})
	out, _ := cli(t, "-c", filepath.Join(dir, "config.toml"), "validate", filepath.Join(dir, "esc\x1b[31mred.toml"))
	if strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
}
