package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
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
ask. It ends on SIGTERM or SIGINT; the VMs run on.

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
	cfg, err := loadConfig(o)
	if err != nil {
		return err
	}
	log := newLogger(verbose)
	// The group of the image tree's directories is QEMU's: what the agent makes
	// there is for that group, and for nobody else.
	syscall.Umask(0o007)
	who, err := whoAmI(cfg)
	if err != nil {
		return err
	}
	if err := useStaging(cfg); err != nil {
		return err
	}
	uids, err := control.LookupUIDs(cfg.Control.Admins)
	if err != nil {
		log.Warn("some admins of the control API are unknown", "error", err)
	}
	health := &health{log: log}
	for {
		err := runOnce(ctx, cfg, who, control.Access{UIDs: uids}, health, log)
		if !errors.Is(err, hostagent.ErrRewire) {
			health.notify(daemon.SdNotifyStopping)
			return err
		}
		log.Info("starting anew", "reason", err)
	}
}

// runOnce runs one agent, from what is on disk to its end.
func runOnce(ctx context.Context, cfg config.Config, who identity, access control.Access, health *health, log *slog.Logger) error {
	st, content, err := state.Open(cfg.State, who.Own)
	if err != nil {
		return err
	}
	defer st.Close()
	kept := hostagent.Restore(content, time.Now(), func(e state.Entry, why error) {
		content.Problems = append(content.Problems, st.Reject(e, why))
	})
	for _, problem := range content.Problems {
		log.Warn("state entry rejected", "problem", problem)
	}
	ln, err := control.Listen(cfg.Control.Socket)
	if err != nil {
		return err
	}
	w := wire(cfg, who, kept, log)
	w.parts.State, w.parts.Problems, w.parts.Alive = st, content.Problems, health.alive
	agent := hostagent.New(w.parts)
	log.Info("started", "version", version, "host_id", w.parts.Settings.Policy.HostID,
		"libvirt", cfg.Libvirt.URI, "specs", cfg.Specs.Dir, "tree", cfg.Tree)
	health.notify(daemon.SdNotifyReady)
	err = serve(ctx, ln, agent, access, log)
	left := w.conn.Stats()
	log.Info("stopped; the VMs run on", "goroutines", runtime.NumGoroutine(),
		"connections", left.Open, "stuck_calls", left.Stuck, "handles", left.Handles, "leaked", left.Leaked)
	return err
}

// serve runs agent and control API until ctx or the agent ends.
func serve(ctx context.Context, ln net.Listener, agent *hostagent.Agent, access control.Access, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := control.Serve(ctx, ln, agent, access, log); err != nil {
			log.Error("control API ended", "error", err)
		}
	})
	err := agent.Run(ctx)
	stop()
	wg.Wait()
	return err
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
	failed bool
}

func (h *health) alive(s status.Host) {
	h.notify(daemon.SdNotifyWatchdog)
	if line := summary(s); line != h.said {
		h.said = line
		h.notify("STATUS=" + line)
	}
}

func (h *health) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !h.failed {
		h.failed = true
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
