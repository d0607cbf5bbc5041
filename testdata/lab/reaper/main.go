// Command reaper runs one command as the subreaper of everything below it: processes orphaned there
// become its children and leave the process table as soon as they end.
//
// libvirtd waits until a killed QEMU has vanished from the process table. QEMU is a daemon, so it
// belongs to PID 1, and where PID 1 is slow at reaping (containers, small init programs) each stop
// of a domain waits for it. Run as `reaper libvirtd` it does not.
//
// TERM and INT are passed on to the command. When the command has ended, the reaper stays for as
// long as orphans live, since a QEMU outlives the libvirtd that started it; TERM or INT then end it
// at once. Its exit code is the command's: 128 plus the number of the signal that ended it, 127 when
// it could not be started.
//
// It owns no policy: whom to restart or to kill is its user's business.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// notStarted is the exit code shells use for a command that could not be run.
const notStarted = 127

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "reaper: %v\n", err)
	}
	os.Exit(code)
}

// run starts the command and returns its exit code once no child is left.
func run(args []string) (int, error) {
	if len(args) == 0 {
		return notStarted, fmt.Errorf("usage: reaper COMMAND [ARGUMENT...]")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return notStarted, fmt.Errorf("become a subreaper: %w", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return notStarted, fmt.Errorf("start the command: %w", err)
	}
	ended := &atomic.Bool{}
	go forward(signals, cmd.Process.Pid, ended)
	return reap(cmd.Process.Pid, ended)
}

// forward passes signals to the command; once that has ended, a signal ends the reaper itself.
func forward(signals <-chan os.Signal, pid int, ended *atomic.Bool) {
	for s := range signals {
		n := s.(syscall.Signal)
		if ended.Load() {
			os.Exit(128 + int(n))
		}
		// The command may end just now; then there is nobody to tell.
		_ = unix.Kill(pid, n)
	}
}

// reap waits for every child, the command and the orphans alike, until there is none. It waits by
// itself, not through exec.Cmd, because only a wait for any child sees the orphans.
func reap(pid int, ended *atomic.Bool) (int, error) {
	code := 0
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			return code, nil
		case err != nil:
			return notStarted, fmt.Errorf("wait for children: %w", err)
		}
		if got == pid {
			ended.Store(true)
			code = exitCode(status)
		}
	}
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
