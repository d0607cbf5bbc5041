//go:build package

package pack

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// box is a container of nspawn.sh.
type box struct {
	script, dir string
}

// holdBox boots a container of that kind, with directories to be seen in it
// under the same path; it ends with the test.
func holdBox(t *testing.T, kind string, dirs ...string) *box {
	t.Helper()
	script, err := kit.Script("nspawn.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pack-") // short: paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	b := &box{script: script, dir: filepath.Join(dir, "box")}
	args := []string{"hold", b.dir, kind}
	for _, d := range dirs {
		args = append(args, "--bind", d)
	}
	cmd := exec.Command(script, args...)
	cmd.Stderr = os.Stderr
	held, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := bufio.NewScanner(said).Scan()
	t.Cleanup(func() {
		_ = held.Close()
		_, _ = io.Copy(io.Discard, said)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the container: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	if !up {
		err := cmd.Wait()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 75 {
			t.Skip("no container with systemd on this machine")
		}
		t.Fatalf("the container did not start: %v", err)
	}
	return b
}

// command prepares a command inside, as root.
func (b *box) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, b.script, append([]string{"join", b.dir}, args...)...)
}
