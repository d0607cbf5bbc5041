package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// envCrash names, in the environment of a child process, the host's directory.
const envCrash = "TEST_CRASH_HOST"

// hypervisorFD is the child's end of the connection to the hypervisor.
const hypervisorFD = 3

func TestMain(m *testing.M) {
	dir := os.Getenv(envCrash)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := child(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report is what a child says for each line that it is told.
type report struct {
	Status  status.Host
	Effects int    // since it was armed last
	Said    string // what an order was answered
	Err     string
}

// child runs an agent on the files of the directory and does as it is told by
// the lines on its input, until that ends:
//
//	arm N        count effects from 0, be killed after the N-th
//	run          run an agent
//	stop         stop it
//	abandon NAME give it that order
//	status       nothing
func child(dir string) error {
	syscall.CloseOnExec(hypervisorFD) // qemu-img must not hold it open
	conn, err := net.FileConn(os.NewFile(hypervisorFD, "hypervisor"))
	if err != nil {
		return err
	}
	var n counter
	hv := borrow(conn, func(effect string) { n.effect("libvirt: " + effect) })
	var agent *hostagent.Agent
	stop := func() {}
	defer func() { stop() }()
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		var r report
		switch word {
		case "arm":
			if err := n.arm(arg); err != nil {
				return err
			}
		case "run":
			if agent, stop, err = crashing(dir, hv, &n); err != nil {
				return err
			}
		case "stop":
			stop()
			stop = func() {}
		case "abandon":
			said, err := agent.Obey(context.Background(), order.Order{Verb: order.Abandon, Name: arg})
			if r.Said = said; err != nil {
				r.Err = err.Error()
			}
		}
		if agent != nil {
			r.Status = agent.Status()
		}
		r.Effects = n.count()
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return in.Err()
}

// counter counts effects and kills the process after the last one.
type counter struct {
	mu         sync.Mutex
	done, last int
}

func (c *counter) arm(last string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = 0
	c.last, err = strconv.Atoi(last)
	return err
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// effect is called after each. Who is killed lets nobody pass any more.
func (c *counter) effect(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	fmt.Fprintf(os.Stderr, "effect %d: %s\n", c.done, what)
	if c.done != c.last {
		return
	}
	fmt.Fprintln(os.Stderr, killedAfter+what)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

const killedAfter = "KILLED after: "

func (c *counter) step(what string) error {
	c.effect(what)
	return nil
}

// crashing starts an agent as "run" does, with a counter at each of its
// effects, and delays that suit a test.
func crashing(dir string, hv *borrowed, n *counter) (*hostagent.Agent, func(), error) {
	cfg, err := config.Load(filepath.Join(dir, "config.toml"))
	if err != nil {
		return nil, nil, err
	}
	syscall.Umask(0o007)
	if err := useStaging(cfg); err != nil {
		return nil, nil, err
	}
	st, content, err := state.OpenStepped(cfg.State, testIdentity.Own, func(step string) error { return n.step("state: " + step) })
	if err != nil {
		return nil, nil, err
	}
	kept := hostagent.Restore(content, time.Now(), func(e state.Entry, why error) {
		content.Problems = append(content.Problems, st.Reject(e, why))
	})
	w := wire(cfg, testIdentity, kept, nil, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	hv.connected()
	tree := image.New(cfg.Tree, testIdentity.ID, image.WithStep(func(step string) error { return n.step("tree: " + step) }))
	w.parts.Hypervisor, w.parts.Executor.Hypervisor = hv, hv
	w.parts.Tree, w.parts.Executor.Tree = tree, tree
	w.parts.State, w.parts.Problems, w.parts.Alive = st, content.Problems, func(status.Host) {}
	p := &w.parts.Settings.Policy
	p.DeletionDelay, p.ImageGrace, p.StartInterval = 10*time.Millisecond, 10*time.Millisecond, 0
	agent := hostagent.New(w.parts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = agent.Run(ctx) }()
	return agent, func() { cancel(); <-ended; st.Close() }, nil
}
