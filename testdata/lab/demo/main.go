// Command demo shows the whole life of a proxy, step by step, with the time
// each took: an agent is started, a spec is dropped, a VM boots and becomes a
// proxy, a request goes through it, the spec is removed and nothing is left.
//
// "make demo" runs it. DRIVER=test takes libvirt's built-in test driver, which
// needs neither root nor a daemon and boots nothing; DEMO_LIBVIRT=system takes
// the machine's own libvirtd in place of a private one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{began: time.Now()}
	err := d.run(ctx)
	if err != nil && d.agent != nil {
		fmt.Printf("the agent's last words:\n%s\n", d.agent.Tail(15))
	}
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		err = errors.Join(err, d.cleanup[i]())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		os.Exit(1)
	}
	d.say("done")
}

// demo is one run.
type demo struct {
	began   time.Time
	real    bool // guests boot
	place   *kit.Place
	agent   *kit.Agent
	cleanup []func() error
}

func (d *demo) say(format string, a ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, a...))
}

func (d *demo) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.agent.Start(); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, d.agent.Stop)
	d.say("agent runs as %s on %s", runsAs(d.real), d.place.URI)
	if err := d.agent.Drop("squid", d.forPlace); err != nil {
		return err
	}
	d.say("dropped testdata/specs/squid.toml")
	if err := d.watch(ctx); err != nil {
		return err
	}
	if err := d.show(ctx); err != nil {
		return err
	}
	if err := d.agent.Remove("squid.toml", "squid.yaml"); err != nil {
		return err
	}
	d.say("removed the spec")
	return d.gone(ctx)
}

func runsAs(real bool) string {
	if real {
		return kit.User
	}
	return "this user"
}

// prepare builds what is needed and lays out the place.
func (d *demo) prepare(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "egress-demo-")
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	d.say("building (the first time takes a minute or two)")
	bin, err := kit.Build(dir, "./cmd/egress-hostagent", "-tags=libvirt_dlopen")
	if err != nil {
		return err
	}
	set := kit.Setting{Acceleration: "tcg", DeletionDelay: "3s", ShutdownGrace: "30s", Probe: true}
	d.real = os.Getenv("DRIVER") != "test"
	if d.real {
		err = d.realPlace(ctx, dir, &set)
	} else {
		err = d.testPlace(dir, &set)
	}
	if err != nil {
		return err
	}
	d.agent, err = d.place.Prepare(bin, set)
	return err
}

func (d *demo) testPlace(dir string, set *kit.Setting) (err error) {
	d.say("libvirt's test driver: no VM boots, the address is a stand-in, nothing is probed")
	set.Probe = false
	if d.place, err = kit.TestDriver(filepath.Join(dir, "place")); err != nil {
		return err
	}
	set.Image, err = kit.EmptyImage(dir)
	return err
}

func (d *demo) realPlace(ctx context.Context, dir string, set *kit.Setting) (err error) {
	d.say("guest image (made once, about two minutes; then reused)")
	if set.Image, err = kit.GuestImage(os.Stdout); err != nil {
		return err
	}
	if os.Getenv("DEMO_LIBVIRT") == "system" {
		d.place, err = kit.System(dir)
	} else {
		d.say("starting a private libvirtd with a network")
		d.place, err = kit.Private(filepath.Join(dir, "lab"))
	}
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, d.place.Stop)
	responder, err := kit.Build(dir, "./testdata/lab/responder")
	if err != nil {
		return err
	}
	cmd := d.place.Command(context.WithoutCancel(ctx), false, responder, "-listen", d.place.Gateway+":8204")
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() error {
		if err := cmd.Cancel(); err != nil {
			return err
		}
		_ = cmd.Wait() // its exit says nothing that matters here
		return nil
	})
	return nil
}

// forPlace makes a spec fit a place whose network does not know the name of
// the machine that answers the probe.
func (d *demo) forPlace(text string) string {
	if os.Getenv("DEMO_LIBVIRT") == "system" {
		return strings.ReplaceAll(text, "connectivity.example", d.place.Gateway)
	}
	return text
}
