//go:build package

package pack

import (
	"bufio"
	"cmp"
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
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &box{script: script, dir: filepath.Join(dir, "box")}
	args := []string{"hold", b.dir, kind}
	for _, d := range dirs {
		args = append(args, "--bind", d)
	}
	end, err := hold(exec.Command(script, args...))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == notAllowed {
		t.Skip("no container with systemd on this machine")
	}
	if err != nil {
		t.Fatalf("the container did not start: %v", err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("the container: %v", err)
		}
	})
	return b
}

// notAllowed is how nspawn.sh ends on a machine that allows no such container.
const notAllowed = 75

// hold starts a command that lasts until its standard input ends, once it has
// said that it is up; end lets it end. The error is that of a command that ended
// before.
func hold(cmd *exec.Cmd) (end func() error, err error) {
	cmd.Stderr = os.Stderr
	held, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if !bufio.NewScanner(said).Scan() {
		return nil, cmp.Or(cmd.Wait(), io.ErrUnexpectedEOF)
	}
	return func() error {
		_ = held.Close()
		_, _ = io.Copy(io.Discard, said)
		return cmd.Wait()
	}, nil
}

// command prepares a command inside, as root.
func (b *box) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, b.script, append([]string{"join", b.dir}, args...)...)
}
