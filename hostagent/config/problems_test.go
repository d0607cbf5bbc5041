package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const goodSHA = "1313131313131313131313131313131313131313131313131313131313131313"

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown keys", "[hosts]\n[libvirt]\nURI = 'x'\n[limits]\naction = 1\nmemory = 1\n[images.a]\nsource = '/a'\nsha256 = '" + goodSHA + "'\nurl = 'x'", []string{
			`c:1:2: hosts: unknown key; did you mean "host"?`,
			`c:3:1: libvirt.URI: unknown key; did you mean "uri"?`,
			`c:5:1: limits.action: unknown key; did you mean "actions"?`,
			`c:6:1: limits.memory: unknown key; allowed: actions, disk_reserve, image_grace, memory_reserve, resync, start_interval`,
			`c:10:1: images.a.url: unknown key; allowed: format, sha256, source`}},
		{"wrong types", "[libvirt]\nuri = 1\n[probe]\nenabled = 'yes'\ninterval = 30\n[limits]\nactions = 2.0\n[policy]\nallowed_cidrs = '192.0.2.0/24'\n[machine_types]\nsmall = 1\n[state]\ndir = true", []string{
			`c:2:1: libvirt.uri: is an integer; want a string`,
			`c:4:1: probe.enabled: is a string; want true or false`,
			`c:5:1: probe.interval: is an integer; want a string`,
			`c:7:1: limits.actions: is a float; want an integer from 1 to 64`,
			`c:9:1: policy.allowed_cidrs: is a string; want an array of at most 64 strings`,
			`c:11:1: machine_types.small: is an integer; want a table`,
			`c:13:1: state.dir: is a boolean; want a string`}},
		{"libvirt", "[libvirt]\nuri = 'qemu+ssh://root@other/system'\nacceleration = 'hvf'", []string{
			`c:2:1: libvirt.uri: names another host, where the disks that the agent makes here are not; want one of this host, such as "qemu:///system"`,
			`c:3:1: libvirt.acceleration: "hvf" is not known; want one of: kvm, tcg`}},
		{"case 63: a user's own libvirt", "[libvirt]\nuri = 'qemu:///session'", []string{
			`c:2:1: libvirt.uri: "qemu:///session" is one user's own libvirt, whose VMs have no network of the host and end with the session; want one of this host, such as "qemu:///system"`}},
		{"a guest agent's wait beyond the call's", "[libvirt]\ncall_timeout = '5s'", []string{
			`c:2:1: libvirt.call_timeout: 5s is not longer than 10s, twice the agent_timeout; calls to silent guest agents would be given up before libvirt gives them up, and keep their slots; raise call_timeout, or lower agent_timeout`}},
		{"waits for libvirt", "[libvirt]\ncall_timeout = '0s'\nkeepalive = '1500ms'\nagent_timeout = 'soon'\n[limits]\ndisk_reserve = '1KiB'", []string{
			`c:2:1: libvirt.call_timeout: "0s" is not a duration that is allowed; want a number with its unit, from "1s" to "10m0s"`,
			`c:3:1: libvirt.keepalive: 1.5s is not possible; want whole seconds from "1s" to "60s"`,
			`c:4:1: libvirt.agent_timeout: "soon" is no duration; want whole seconds from "1s" to "60s"`,
			`c:6:1: limits.disk_reserve: 1KiB is out of bounds; want 1MiB to 1TiB`}},
		{"paths", "[specs]\ndir = 'proxies.d'\n[tree]\nroot = '/'\n[state]\ndir = '/var/lib/../lib/x'\n[control]\nsocket = '/" + strings.Repeat("s", 107) + "'", []string{
			`c:2:1: specs.dir: "proxies.d" is not an absolute path; it would mean another file in each working directory`,
			`c:4:1: tree.root: "/" is the root directory; want one of the agent's own`,
			`c:6:1: state.dir: "/var/lib/../lib/x" is not the shortest form of the path; want "/var/lib/x"`,
			`c:8:1: control.socket: is 108 bytes long; a socket's path can have 107`}},
		{"one directory for two", "[specs]\ndir = '/srv/egress'\n[state]\ndir = '/srv/egress'", []string{
			`c:4:1: state.dir: is the directory of [specs] too; each needs its own`}},
		{"one directory for two, by default", "[specs]\ndir = '/var/lib/egress-hostagent'", []string{
			`c:2:1: specs.dir: is the directory of [state] too; each needs its own`}},
		{"credentials", "[credentials.a]\n[credentials.b]\nfile = 'b'\n[credentials.c]\nfile = '/c/../d'\nuser = 'x'", []string{
			`c:1:14: credentials.a.file: is missing; want the absolute path of a file with "user:password"`,
			`c:3:1: credentials.b.file: "b" is not an absolute path; it would mean another file in each working directory`,
			`c:5:1: credentials.c.file: "/c/../d" is not the shortest form of the path; want "/d"`,
			`c:6:1: credentials.c.user: unknown key; allowed: file`}},
		{"two defaults to connect to", "[defaults]\ndirect = 'eth1'\nbridge = 'br0'", []string{
			`c:2:1: defaults.direct: is given beside bridge; give one of them`}},
		{"images", "[images.a]\n[images.b]\nsource = 'b.qcow2'\nsha256 = 'B" + goodSHA[1:] + "'\nformat = 'vmdk'\n[images.c]\nsource = 'http://images.example/c'\nsha256 = '13'", []string{
			`c:1:9: images.a.source: is missing; want where the image is: an absolute path, or an https URL`,
			`c:1:9: images.a.sha256: is missing; want the digest of the image file: 64 hex digits, as sha256sum prints them`,
			`c:3:1: images.b.source: "b.qcow2" is not an absolute path; it would mean another file in each working directory`,
			`c:4:1: images.b.sha256: has upper-case digits; want "b` + goodSHA[1:] + `"`,
			`c:5:1: images.b.format: "vmdk" is not known; want one of: qcow2, raw`,
			`c:7:1: images.c.source: is an http URL, which anyone on the way can read and replace; want an absolute path, or a URL such as "https://images.example/debian-13.qcow2"`,
			`c:8:1: images.c.sha256: is no SHA-256 digest (2 characters); want 64 lower-case hex digits, as sha256sum prints them`}},
		{"machine types", "[machine_types.a]\ncpus = 0\nmemory = '1GB'\n[machine_types.b]\ncpus = 65\nmemory = '64MiB'", []string{
			`c:2:1: machine_types.a.cpus: 0 is out of bounds; want an integer from 1 to 64`,
			`c:3:1: machine_types.a.memory: "1GB" is not a size; units are KiB, MiB, GiB and TiB; want "1GiB"`,
			`c:5:1: machine_types.b.cpus: 65 is out of bounds; want an integer from 1 to 64`,
			`c:6:1: machine_types.b.memory: 64MiB is out of bounds; want 128MiB to 1TiB`}},
		{"defaults", "[defaults]\nimage = 'a'\nmachine_type = 'b'\ndisk = '1MiB'\nport = 65536\nnetwork = 'n'\nbridge = 'b'", []string{
			`c:2:1: defaults.image: there is no [images.a]; add it, or name another`,
			`c:3:1: defaults.machine_type: there is no [machine_types.b]; add it, or name another`,
			`c:4:1: defaults.disk: 1MiB is out of bounds; want 1GiB to 16TiB, or "0GiB" for the base image's own size`,
			`c:5:1: defaults.port: 65536 is out of bounds; want an integer from 1 to 65535`,
			`c:7:1: defaults.bridge: is given beside network; give one of them`}},
		{"a default's own entry is broken", "[images.a]\nsource = 1\nsha256 = '" + goodSHA + "'\n[defaults]\nimage = 'a'", []string{
			`c:2:1: images.a.source: is an integer; want a string`}},
		{"policy", "[policy]\nallowed_cidrs = ['192.0.2.1/24', 'x', 1]\ndeletion_delay = '0s'\nshutdown_grace = '2h'", []string{
			`c:2:18: policy.allowed_cidrs[0]: "192.0.2.1/24" is an address in a network; for the network want "192.0.2.0/24"`,
			`c:2:34: policy.allowed_cidrs[1]: "x" is no network; want one such as "192.0.2.0/24" or "2001:db8::/32"`,
			`c:2:39: policy.allowed_cidrs[2]: is an integer; want a string`,
			`c:3:1: policy.deletion_delay: "0s" is not a duration that is allowed; want a number with its unit, from "1s" to "24h0m0s"`,
			`c:4:1: policy.shutdown_grace: "2h" is not a duration that is allowed; want a number with its unit, from "1s" to "1h0m0s"`}},
		{"roll-out", "[policy]\nmax_unavailable = 0\nrollout_wait = '9s'", []string{
			`c:2:1: policy.max_unavailable: 0 is out of bounds; want an integer from 1 to 1000`,
			`c:3:1: policy.rollout_wait: "9s" is not a duration that is allowed; want a number with its unit, from "10s" to "24h0m0s"`}},
		{"limits below", "[limits]\nmemory_reserve = '-1MiB'\nstart_interval = '-1s'\nimage_grace = '59s'", []string{
			`c:2:1: limits.memory_reserve: "-1MiB" is not a size; want a whole number and its unit, such as "2GiB"`,
			`c:3:1: limits.start_interval: "-1s" is not a duration that is allowed; want a number with its unit, from "0s" to "1m0s"`,
			`c:4:1: limits.image_grace: "59s" is not a duration that is allowed; want a number with its unit, from "1m0s" to "8760h0m0s"`}},
		{"limits above", "[policy]\nmax_unavailable = 1001\nrollout_wait = '24h1s'\n[limits]\nmemory_reserve = '1025GiB'\nstart_interval = '61s'\nimage_grace = '8761h'", []string{
			`c:2:1: policy.max_unavailable: 1001 is out of bounds; want an integer from 1 to 1000`,
			`c:3:1: policy.rollout_wait: "24h1s" is not a duration that is allowed; want a number with its unit, from "10s" to "24h0m0s"`,
			`c:5:1: limits.memory_reserve: 1025GiB is out of bounds; want 0GiB to 1TiB`,
			`c:6:1: limits.start_interval: "61s" is not a duration that is allowed; want a number with its unit, from "0s" to "1m0s"`,
			`c:7:1: limits.image_grace: "8761h" is not a duration that is allowed; want a number with its unit, from "1m0s" to "8760h0m0s"`}},
		{"admins", "[control]\nadmins = ['root', 'Deploy', 1000]", []string{
			`c:2:19: control.admins[1]: "Deploy" is no user; want a name such as "deploy", of at most 32 bytes, or a uid such as "1000"`,
			`c:2:29: control.admins[2]: is an integer; want a string`}},
		{"too many admins", "[control]\nadmins = ['a'" + strings.Repeat(",'a'", 64) + "]", []string{
			`c:2:1: control.admins: is an array of 65; want an array of at most 64 strings`}},
		{"probe", "[probe]\ninterval = '3s'\ntimeout = '4s'", []string{
			`c:3:1: probe.timeout: 4s is longer than the interval, 3s; probes would pile up`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Decode("c", []byte(tt.text))
			problems, ok := errors.AsType[spec.Problems](err)
			if !ok {
				t.Fatalf("decoded to %+v, error %v; want Problems", got, err)
			}
			if diff := cmp.Diff(tt.want, problems.Lines()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI12_ImageSources(t *testing.T) {
	t.Parallel()
	image := func(source string) error {
		_, err := config.Decode("c", fmt.Appendf(nil, "[images.a]\nsource = %q\nsha256 = %q", source, goodSHA))
		return err
	}
	for _, source := range []string{"/a b.qcow2", "/größe.qcow2", "https://images.example/a.qcow2?token=x", "https://[2001:db8::1]:8443/a"} {
		if err := image(source); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
	for _, source := range []string{
		"", "a", "./a", "../a", "~/a", "/a/../b", "/a/", "/a\n", "file:///a", "http://x/a", "ftp://x/a", "HTTP://x/a", "https://", "https:///a",
		"https://user:hunter2@x/a", "https://hunter2@x/a", "https://x/a b", "https://x/\x7f", "://", "https://hunter2:x y/", "/" + strings.Repeat("a", 4096),
	} {
		if err := image(source); err == nil {
			t.Errorf("%q was accepted", source)
		} else if strings.Contains(err.Error(), "hunter2") || strings.ContainsAny(err.Error(), "\n\x7f") {
			t.Errorf("%q: problem %q quotes a password or a raw character", source, err)
		}
	}
}

func TestLibvirtURIs(t *testing.T) {
	t.Parallel()
	uri := func(text string) error {
		_, err := config.Decode("c", fmt.Appendf(nil, "libvirt.uri = %q", text))
		return err
	}
	for _, text := range []string{"qemu:///system", "qemu+unix:///system?socket=/run/x", "test:///default", "test:///srv/node.xml"} {
		if err := uri(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "qemu", "qemu:", "qemu:///", "qemu://other/system", "qemu+unix://root@/system", "qemu+ssh:///system", "xen:///system", "/system", "qemu:///sys\ntem", "://",
	} {
		if err := uri(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestI13_HostileKeys(t *testing.T) {
	t.Parallel()
	entry := "\nsource = '/a'\nsha256 = '" + goodSHA + "'\n"
	for _, name := range []string{
		"", ".", "..", "a/b", "../../etc/cron.d/x", "-rf", ".hidden", "a\x00b", "a\nb", "a\x1b[31m", " a", "a ", "größe", "a.", "p.i-0123456789abcdef", strings.Repeat("a", 64),
	} {
		quoted := `"` + escaped(name) + `"`
		for _, text := range []string{
			"[images." + quoted + "]" + entry,
			"[machine_types." + quoted + "]\ncpus = 1\nmemory = '1GiB'",
			"[host]\nid = " + quoted,
			"[host]\nname = " + quoted,
			"[defaults]\nnetwork = " + quoted,
			"[defaults]\nbridge = " + quoted,
			"[defaults]\ndirect = " + quoted,
			"[credentials." + quoted + "]\nfile = '/a'",
			"[images." + quoted + "]" + entry + "[defaults]\nimage = " + quoted,
		} {
			if _, err := config.Decode("c", []byte(text)); err == nil {
				t.Errorf("%q was accepted", text)
			} else if strings.ContainsAny(err.Error(), "\x00\x1b") {
				t.Errorf("%q: unescaped problem %q", text, err)
			}
		}
	}
}

func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\U%08x`, r)
	}
	return b.String()
}

func TestI15_CatalogIsBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "[machine_types.m%d]\ncpus = 1\nmemory = '1GiB'\n", i)
	}
	_, err := config.Decode("c", []byte(text.String()))
	if diff := cmp.Diff("c:1:2: machine_types: has 300 entries; at most 256 are allowed", fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzDecode: no document panics, and each problem is at a place inside the
// document.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "[host]\nid = 'a'", "[images.a]\nsource = 'https://x/'\nsha256 = '" + goodSHA + "'\n[defaults]\nimage = 'a'", "[machine_types]\nsmall = {cpus = 1, memory = '1GiB'}",
		"policy.allowed_cidrs = ['192.0.2.0/24', 1]", "[probe]\ninterval = '1ns'\n[limits]\nresync = '9999999999h'", "images = 1\r\ndefaults = []", "[images.\"\\u0000\"]", "[tree]\nroot = '/var/lib/egress-hostagent'",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := config.Decode("c", data)
		problems, _ := errors.AsType[spec.Problems](err)
		if err != nil && len(problems) == 0 {
			t.Fatalf("%T without problems: %v", err, err)
		}
		lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
		for _, p := range problems {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
				t.Fatalf("place outside the document: %v", p)
			}
		}
	})
}
