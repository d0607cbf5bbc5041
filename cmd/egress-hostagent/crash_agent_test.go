package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// journal is what a child has written to its standard error since the reset.
type journal struct {
	mu   sync.Mutex
	text []byte
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, p...)
	return len(p), nil
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}

// agent is a child process that runs one agent after the other on the host.
type agent struct {
	h      *crashHost
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	log    journal
	lent   chan struct{} // closed when it uses the hypervisor no more
	killed bool          // it was
}

// agent gives a child that is not running an agent yet.
func (h *crashHost) agent() *agent {
	h.t.Helper()
	if a := h.idle; a != nil {
		h.idle = nil
		a.log.reset()
		return a
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	h.must(err)
	mine, its := os.NewFile(uintptr(pair[0]), "parent"), os.NewFile(uintptr(pair[1]), "child")
	defer its.Close()
	conn, err := net.FileConn(mine)
	h.must(err)
	h.must(mine.Close())
	a := &agent{h: h, cmd: exec.Command(os.Args[0]), lent: make(chan struct{})}
	a.cmd.Env = append(os.Environ(), envCrash+"="+h.dir, "GOMAXPROCS=1") // a fifth less to do
	a.cmd.ExtraFiles, a.cmd.Stderr = []*os.File{its}, &a.log
	a.in, err = a.cmd.StdinPipe()
	h.must(err)
	out, err := a.cmd.StdoutPipe()
	h.must(err)
	a.out = bufio.NewReader(out)
	h.must(a.cmd.Start())
	go func() { defer close(a.lent); lend(h.conn, conn) }()
	return a
}

// tell tells the child a line and gives its report; ok is false when it was
// killed over it.
func (a *agent) tell(line string, args ...any) (r report, ok bool) {
	a.h.t.Helper()
	if a.killed {
		return r, false
	}
	text, err := "", error(nil)
	if _, err = fmt.Fprintf(a.in, line+"\n", args...); err == nil {
		text, err = a.out.ReadString('\n')
	}
	if err != nil {
		a.ended()
		return r, false
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		a.h.t.Fatalf("the child says %q: %v", text, err)
	}
	return r, true
}

// stop ends the agent, but not the child, in good order.
func (a *agent) stop() {
	a.h.t.Helper()
	if _, ok := a.tell("stop"); ok {
		a.h.idle = a
	}
}

// ended waits for the end of a child that is killed or has been told to stop.
func (a *agent) ended() {
	a.h.t.Helper()
	a.in.Close()
	err := a.cmd.Wait()
	<-a.lent
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && strings.Contains(a.log.String(), killedAfter):
		a.killed = true
	default:
		a.h.t.Fatalf("child: %v\n%s", err, &a.log)
	}
}

// after tells after what a child was killed.
func (a *agent) after() string {
	_, text, _ := strings.Cut(a.log.String(), killedAfter)
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// until waits until the host is as wanted and the agent has come to rest, or
// the agent was killed.
func (a *agent) until(want picture) {
	a.h.t.Helper()
	const restful = 4 // looks in a row
	same, effects := 0, -1
	for deadline := time.Now().Add(patience); same < restful; {
		r, alive := a.tell("status")
		if !alive {
			return
		}
		// The rest is costly, and only looked at once there is hope.
		as := r.Effects == effects && slices.Equal(want.Proxies, displayed(r.Status)) && reflect.DeepEqual(want, a.h.picture(r.Status))
		if effects = r.Effects; as {
			same++
		} else {
			same = 0
		}
		if time.Now().After(deadline) {
			a.h.t.Fatalf("%s: not within %s (-want +got):\n%s\n%+v\n%s", a.h.where, patience,
				cmp.Diff(want, a.h.picture(r.Status)), r.Status.Proxies, &a.log)
		}
		<-time.After(8 * time.Millisecond)
	}
}
