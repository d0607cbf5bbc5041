package seed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// guest is a directory that plays the root of a guest: its kernel's files, its
// package manager and its init system, all of them stubs that write down how
// they were called.
type guest struct {
	t    *testing.T
	root string
}

// Bodies of stubs. "$root" is the guest's directory.
const (
	installs   = `printf '#!/bin/sh\n' >"$root/bin/qemu-ga"; /bin/chmod 755 "$root/bin/qemu-ga"`
	fails      = `exit 100`
	sleeps     = `read -r up rest <"$root/proc/uptime"; echo "$((${up%.*} + $1)).50 $rest" >"$root/proc/uptime"`
	timeLimits = `shift; "$@"`
	// dnf and its like wait for their locks; apt does not for its lists'.
	aptLocked = `read -r up rest <"$root/proc/uptime"; [ "${up%.*}" -ge 1020 ] || exit 100; case " $* " in *" install "*) ` + installs + `;; esac`
)

// newGuest makes a guest with the agent's channel, a default route, 1000 s of
// uptime and no package manager or init system.
func newGuest(t *testing.T) *guest {
	t.Helper()
	g := &guest{t, t.TempDir()}
	g.write("sys/class/virtio-ports/vport0p1/name", "com.redhat.spice.0\n")
	g.write("sys/class/virtio-ports/vport2p1/name", "org.qemu.guest_agent.0\n")
	g.write("proc/uptime", "1000.25 900.00\n")
	g.write("proc/net/route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"+
		"eth0\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
	g.write("dev/vport2p1", "")
	g.stub("sleep", sleeps)
	g.stub("timeout", timeLimits)
	for _, tool := range []string{"grep", "true"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(g.root, "bin", tool)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *guest) write(path, text string) {
	g.t.Helper()
	path = filepath.Join(g.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) read(path string) string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.root, path))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(data)
}

func (g *guest) remove(paths ...string) {
	g.t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(g.root, path)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// stub adds a program that notes its name, arguments and anything it can read
// from standard input, and then does what body says.
func (g *guest) stub(name, body string) {
	g.t.Helper()
	g.write("bin/"+name, `#!/bin/sh
root='`+g.root+`'
printf '%s\n' "${0##*/} $*" >>"$root/calls"
if read -r line; then echo "STDIN $line" >>"$root/calls"; fi
case ${0##*/} in apt-get) [ "$DEBIAN_FRONTEND$NEEDRESTART_SUSPEND$LC_ALL" = noninteractive1C ] || echo "ENV" >>"$root/calls" ;; esac
`+body+"\n")
	if err := os.Chmod(filepath.Join(g.root, "bin", name), 0o700); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) systemd() {
	g.write("run/systemd/system/x", "")
	g.stub("systemctl", `[ "$1" != enable ]`) // as on Debian, where the unit is static
	g.stub("udevadm", "")
}

func (g *guest) openrc() {
	g.write("etc/conf.d/qemu-guest-agent", "# settings\n#GA_PATH=\"/dev/x\"\n")
	g.stub("rc-update", "")
	g.stub("rc-service", `case $2 in start) : >"$root/started";; status) [ -e "$root/started" ];; esac`)
}

// localised returns the script with every absolute path moved into the guest.
// The shipped script has no switch for that.
func (g *guest) localised() []byte {
	g.t.Helper()
	text := script
	for _, move := range [][2]string{
		{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "PATH='" + g.root + "/bin'\n"},
		{" in /sys/", " in " + g.root + "/sys/"},
		{"/proc/", g.root + "/proc/"},
		{"/usr/libexec/", g.root + "/usr/libexec/"},
		{"-d /run/", "-d " + g.root + "/run/"},
		{"/etc/conf.d/", g.root + "/etc/conf.d/"},
		{`"/dev/virtio-ports/`, `"` + g.root + `/dev/virtio-ports/`},
		{`-e "/dev/$port"`, `-e "` + g.root + `/dev/$port"`},
	} {
		if !strings.Contains(text, move[0]) {
			g.t.Fatalf("%q is no longer in the script: this test would run on the machine itself", move[0])
		}
		text = strings.ReplaceAll(text, move[0], move[1])
	}
	return []byte(text)
}

// run runs the script once and returns the calls it made and what it printed.
func (g *guest) run(shell []string) (calls []string, output string) {
	g.t.Helper()
	g.remove("calls")
	cmd := exec.CommandContext(g.t.Context(), shell[0],
		append(shell[1:len(shell):len(shell)], scriptFile(g.t, g.localised()))...)
	cmd.Stdin = bytes.NewReader([]byte("y\ny\n"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Errorf("exit code: %v, want 0\n%s", err, out)
	}
	for line := range strings.Lines(g.read("calls")) {
		if line = strings.TrimSpace(line); line != "timeout 1 true" {
			calls = append(calls, line)
		}
	}
	return calls, string(out)
}
