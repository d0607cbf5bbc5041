package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// lookDeadline bounds a dry run's and doctor's look at libvirt.
const lookDeadline = 30 * time.Second

func planCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Show what the agent would do now, and why, without doing it",
		Long: `Plan reads specs, libvirt and the image tree once, the same way "run" does, and
prints the next step of each proxy with its reason. It changes nothing. Each
action's successor is planned from what is seen after it, so a new proxy shows
its first step only.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, w, err := quietly(o)
			if err != nil {
				return err
			}
			ctx, cancel := waitContext(cmd.Context(), lookDeadline)
			defer cancel()
			defer linkUp(ctx, w)()
			actions, host, err := hostagent.DryRun(ctx, w.parts, w.snapshots())
			printPlan(cmd.OutOrStdout(), actions, host)
			if err != nil { // the plan's first lines have said it
				return &codedError{exitError, errQuiet}
			}
			return nil
		},
	}
}

// snapshots reads the directory, and takes the manifest as the agent last kept it:
// a dry run asks no server.
func (w wired) snapshots() []source.Snapshot {
	out := []source.Snapshot{w.dir.ReadOnce()}
	if w.pull != nil {
		out = append(out, w.pull.Snapshot())
	}
	return out
}

// linkUp runs the link to libvirt and waits until it is up or ctx ends. The
// function it returns takes the link down.
func linkUp(ctx context.Context, w wired) (down func()) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.conn.Run(run)
	}()
	select {
	case <-w.conn.Events():
	case <-ended: // there is no link to be had; calls say why
	case <-ctx.Done():
	}
	return func() { cancel(); <-ended }
}

func printPlan(out io.Writer, actions []plan.Action, host status.Host) {
	for _, c := range host.Conditions {
		if c.Status != status.True {
			wrap(out, "", fmt.Sprintf("host: %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	acting := map[string]bool{}
	for _, a := range actions {
		acting[a.Name] = true
		switch a.Kind {
		case plan.FetchImage:
			fmt.Fprintf(out, "image %s: %s from %s: %s\n", a.Image.Key, a.Kind, a.Image.Source, a.Reason)
		case plan.InitTree:
			fmt.Fprintf(out, "image tree %s: %s: %s\n", host.Tree, a.Kind, a.Reason)
		default:
			fmt.Fprintf(out, "%s: %s: %s\n", a.Name, a.Kind, a.Reason)
		}
	}
	for _, p := range host.Proxies {
		if acting[p.Name] {
			continue
		}
		c, _ := p.Condition(status.Synced)
		switch {
		case p.Next != "":
			fmt.Fprintf(out, "%s: %s\n", p.Name, p.Next)
		case c.Status == status.True:
			fmt.Fprintf(out, "%s: nothing to do\n", p.Name)
		default:
			fmt.Fprintf(out, "%s: nothing: %s\n", p.Name, c.Reason)
		}
		if c.Status != status.True && c.Message != "" {
			wrap(out, "    ", c.Message)
		}
	}
	if len(actions)+len(host.Proxies) == 0 {
		fmt.Fprintln(out, "nothing to do: no specs and no domains of this agent")
	}
}
