package seed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shells are those a guest's /bin/sh may be.
var shells = []struct {
	name, debianPackage string
	command             []string
}{
	{"dash", "dash", []string{"dash"}},
	{"bash", "bash", []string{"bash", "--posix"}},
	{"busybox", "busybox", []string{"busybox", "sh"}},
}

func scriptFile(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest-agent.sh")
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSeed24_ScriptParses(t *testing.T) {
	t.Parallel()
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			needTool(t, shell.command[0], shell.debianPackage)
			args := append(shell.command[1:len(shell.command):len(shell.command)], "-n", scriptFile(t, Script()))
			if out, err := exec.CommandContext(t.Context(), shell.command[0], args...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestSeed24_ScriptPassesShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck := needTool(t, "shellcheck", "shellcheck")
	out, err := exec.CommandContext(t.Context(), shellcheck, "-s", "sh", scriptFile(t, Script())).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSeed14_Seed24_ScriptForm(t *testing.T) {
	t.Parallel()
	if !bytes.HasPrefix(Script(), []byte("#!/bin/sh\n")) || !bytes.HasSuffix(Script(), []byte("\nexit 0\n")) {
		t.Error("has to start with #!/bin/sh and end with exit 0")
	}
	for i, c := range Script() {
		if c > 0x7e || (c < 0x20 && c != '\n' && c != '\t') {
			t.Errorf("byte %#x at %d is not ASCII text", c, i)
		}
	}
	Script()[0] = 'X'
	if Script()[0] != '#' {
		t.Error("a caller can change the script")
	}
}

// The script is a guest's own business and changes nothing but the package, the
// service and, on OpenRC, the service's path.
func TestSeed28_ScriptStaysInItsLane(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			code.WriteString(line)
		}
	}
	for _, banned := range []string{
		`sources\.list`, `repos\.d`, `add-repo`, `apt-key`, `gpg`, `trusted`, `allow-unauth`, `setsebool`, `semanage`,
		`setenforce`, `chcon`, `sysconfig`, `\bcurl\b`, `\bwget\b`, `\bkill`, `systemctl (stop|mask|restart)`,
		`(?m)(^|[;&|(]|then|do)\s*(/\S*/)?qemu-ga\b`, // the agent itself, as a command
		`bounded \d+ (apt-get .*install|dnf|yum|zypper|apk)`,
	} {
		if hit := regexp.MustCompile(banned).FindString(code.String()); hit != "" {
			t.Errorf("%q is in the script", hit)
		}
	}
}
