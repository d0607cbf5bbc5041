package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/seed"
)

func runCommand(o *options) *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the agent in the foreground (what the service does)",
		Long: `Run watches the spec directory and keeps the domains of this host as the specs
ask. It ends on SIGTERM or SIGINT; the VMs run on. On SIGHUP it reads the
configuration again; one that is wrong changes nothing, and "status" says why.

Run starts without libvirt, without a network and with an empty spec
directory; it waits for what is missing and says so in "status". Only a
configuration that is wrong ends it, with exit code 78.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, verbose)
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log every step")
	return c
}

func run(ctx context.Context, o *options, verbose bool) error {
	reload := make(chan os.Signal, 1) // first: until then the signal would end the process
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	cfg, err := loadConfig(o)
	if err != nil {
		return err
	}
	// The group of the image tree's directories is QEMU's: what the agent makes
	// there is for that group, and for nobody else.
	syscall.Umask(0o007)
	if err := useStaging(cfg); err != nil {
		return err
	}
	log := newLogger(verbose)
	d := &daemonRun{o: o, cfg: cfg, reload: reload, health: &health{log: log}, log: log}
	defer d.health.notify(daemon.SdNotifyStopping)
	return d.run(ctx)
}

// daemonRun is one run of the daemon: one agent after the other, each made of
// what is on disk and of the configuration that counts.
type daemonRun struct {
	o       *options
	cfg     config.Config  // that counts
	last    *config.Config // that counted before, until an agent was made of cfg
	refused string         // why the configuration on disk does not count
	reload  <-chan os.Signal
	access  control.Access
	health  *health
	log     *slog.Logger
}

// run ends with ctx, or with the error of an agent that could not be made.
func (d *daemonRun) run(ctx context.Context) error {
	for {
		next, err := d.once(ctx)
		switch {
		case next != nil:
			before := d.cfg
			d.cfg, d.last = *next, &before
		case errors.Is(err, hostagent.ErrRewire):
			d.log.Info("starting anew", "reason", err)
		case err != nil && d.last != nil:
			d.refuse(err)
			d.cfg, d.last = *d.last, nil
		default:
			return err
		}
	}
}

// once runs one agent, from what is on disk to its end. It gives the
// configuration that the next one is to be made of, if that is why it ended.
func (d *daemonRun) once(ctx context.Context) (next *config.Config, err error) {
	who, err := whoAmI(d.cfg)
	if err != nil {
		return nil, err
	}
	st, content, err := state.Open(d.cfg.State, who.Own)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	kept := hostagent.Restore(content, time.Now(), func(e state.Entry, why error) {
		content.Problems = append(content.Problems, st.Reject(e, why))
	})
	for _, problem := range content.Problems {
		d.log.Warn("state entry rejected", "problem", problem)
	}
	ln, err := control.Listen(d.cfg.Control.Socket)
	if err != nil {
		return nil, err
	}
	w := wire(d.cfg, who, kept, st, d.log)
	w.parts.Problems, w.parts.Alive = content.Problems, d.health.alive
	agent := hostagent.New(w.parts)
	agent.RefuseConfig(ctx, d.refused)
	d.lookUpAdmins()
	w.pull.warnOfCredentials(d.log)
	d.log.Info("started", "version", version, "host_id", w.parts.Settings.Policy.HostID,
		"libvirt", d.cfg.Libvirt.URI, "specs", d.cfg.Specs.Dir, "manifest", d.cfg.Manifest.URL, "tree", d.cfg.Tree)
	d.last = nil
	d.health.notify(daemon.SdNotifyReady)
	next, err = d.serve(ctx, ln, agent, w)
	left := w.conn.Stats()
	d.log.Info("stopped; the VMs run on", "goroutines", runtime.NumGoroutine(),
		"connections", left.Open, "stuck_calls", left.Stuck, "handles", left.Handles, "leaked", left.Leaked)
	return next, err
}

// serve runs agent and control API until ctx or the agent ends, or until a
// configuration asks for another agent.
func (d *daemonRun) serve(ctx context.Context, ln net.Listener, agent *hostagent.Agent, w wired) (next *config.Config, err error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := control.Serve(ctx, ln, agent, &d.access, d.log); err != nil {
			d.log.Error("control API ended", "error", err)
		}
	})
	wg.Go(func() {
		defer stop()
		next = d.reloads(ctx, agent, w)
	})
	err = agent.Run(ctx)
	stop()
	wg.Wait()
	return next, err
}

// lookUpAdmins makes the configured admins count, those there are.
func (d *daemonRun) lookUpAdmins() {
	uids, err := control.LookupUIDs(d.cfg.Control.Admins)
	if err != nil {
		d.log.Warn("some admins of the control API are unknown", "error", err)
	}
	d.access.Set(uids)
}

// useStaging makes the private directory that seeds are staged in.
func useStaging(cfg config.Config) error {
	staging := filepath.Join(cfg.State, "staging")
	if dir := os.Getenv("RUNTIME_DIRECTORY"); dir != "" {
		staging = filepath.Join(dir, "staging")
	}
	return seed.UseStaging(staging)
}

func newLogger(verbose bool) *slog.Logger {
	opt := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		opt.Level = slog.LevelDebug
	}
	if os.Getenv("JOURNAL_STREAM") != "" { // the journal has its own time stamps
		opt.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opt))
}

// health feeds systemd: the watchdog from the planner's own progress, and a
// line of text for "systemctl status".
type health struct {
	log    *slog.Logger
	said   string
	failed atomic.Bool
}

func (h *health) alive(s status.Host) {
	h.notify(daemon.SdNotifyWatchdog)
	if line := summary(s); line != h.said {
		h.said = line
		h.notify("STATUS=" + line)
	}
}

// reloading tells systemd that a reload has begun. systemd tells by the time
// which of several it is (sd_notify(3), MONOTONIC_USEC).
func (h *health) reloading() {
	h.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

func (h *health) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && h.failed.CompareAndSwap(false, true) {
		h.log.Warn("systemd can not be notified", "error", err)
	}
}

// summary is the host's state in one line.
func summary(s status.Host) string {
	ready := 0
	for _, p := range s.Proxies {
		if p.IsReady() {
			ready++
		}
	}
	line := fmt.Sprintf("%d of %d proxies ready", ready, len(s.Proxies))
	for _, c := range s.Conditions {
		if c.Status != status.True && c.Message != "" {
			return line + "; " + c.Message
		}
	}
	return line
}

// waitContext bounds what a one-shot command may take.
func waitContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errors.New("gave up after "+d.String()))
}
