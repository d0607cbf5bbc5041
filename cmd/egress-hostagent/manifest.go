package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

func manifestCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "manifest",
		Short: "See to the manifest that this host pulls",
		Long: `A manifest is one JSON document with all proxies of this host, pulled from the
URL in [manifest] of the configuration, beside the directory of specs.`,
	}
	group(c)
	c.AddCommand(manifestShowCommand(o), manifestResetCommand(o))
	return c
}

func manifestShowCommand(o *options) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show which manifest stands, and how the last attempt to read it went",
		Long: `Show asks the running agent. Exit code 0: the last attempt was good; 1: it was
not, and what was taken before stands; 3: the agent does not run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := fetchStatus(cmd, o)
			if err != nil {
				return err
			}
			if host.Manifest == nil {
				return errors.New("no manifest is configured: there is no url in [manifest]")
			}
			if out := cmd.OutOrStdout(); asJSON {
				err = printJSON(out, host.Manifest)
			} else {
				printManifest(out, host)
			}
			if err == nil && host.Manifest.Reason != "" {
				err = &codedError{exitError, errQuiet}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

func manifestResetCommand(o *options) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "reset",
		Short: "Take the next manifest whatever its revision is",
		Long: `Reset makes the agent forget which revisions of the manifest it has taken. It is
for a publisher that has lost count, or was put back from a backup, and now
publishes revisions that are refused as RollbackRejected or EquivocationRejected.
The next manifest that is good otherwise then counts, whatever its revision is;
until then what was taken stands. Make sure that it is the one you mean: an old
one may list proxies that were removed since, and not list newer ones.` + orderLong,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				if err := confirm(cmd, "An older manifest than the last one can count again: proxies that it does not list are removed."); err != nil {
					return err
				}
			}
			return askAgent(o, cmd.ErrOrStderr(), func(socket string) error {
				return giveOrder(cmd, socket, order.Order{Verb: order.ResetManifest})
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func printManifest(out io.Writer, host status.Host) {
	m := host.Manifest
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(k, v string) {
		if v != "" {
			fmt.Fprintf(tw, "%s\t%s\n", k, printable(v))
		}
	}
	at := func(k string, t time.Time) {
		if !t.IsZero() {
			row(k, fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), relative(t, host.Time)))
		}
	}
	for _, s := range host.Sources {
		if s.Origin == source.OriginManifest {
			row("url", s.Location)
			row("proxies", fmt.Sprint(s.Proxies))
		}
	}
	row("revision", fmt.Sprint(m.Revision))
	row("digest", m.Digest)
	row("signed by", m.Key)
	at("issued", m.IssuedAt)
	at("expires", m.ExpiresAt)
	at("taken", m.FetchedAt)
	if m.FromCache {
		row("", "kept from before; no server has confirmed it since the agent started")
	}
	at("last good read", m.CheckedAt)
	for _, c := range m.Credentials {
		row(c.Role, c.Path)
		at("  valid until", c.NotAfter)
	}
	_ = tw.Flush()
	for _, line := range manifestTroubles(*m) {
		wrap(out, "! ", line)
	}
}

// manifestTroubles says what is wrong with the manifest and its credentials, for
// people.
func manifestTroubles(m status.Manifest) []string {
	var out []string
	if m.Reason != "" {
		out = append(out, m.Reason+": "+m.Problem)
	}
	return append(out, credentialTroubles(m)...)
}

// credentialTroubles is what of it the sources' problems do not say.
func credentialTroubles(m status.Manifest) []string {
	var out []string
	if m.ClockOff {
		out = append(out, fmt.Sprintf("this host's clock and the server's are %s apart: times in the manifest are not judged",
			time.Duration(m.ClockAhead*float64(time.Second)).Abs().Round(time.Second)))
	}
	for _, c := range m.Credentials {
		switch {
		case c.Problem != "" && c.Kept:
			out = append(out, fmt.Sprintf("%s: what it held before is used on: %s", c.Path, c.Problem))
		case c.Problem != "":
			out = append(out, c.Problem)
		case c.Warning != "":
			out = append(out, fmt.Sprintf("%s: %s", c.Path, c.Warning))
		}
	}
	return out
}

// relative says when t is, as seen at now.
func relative(t, now time.Time) string {
	if t.After(now) {
		return "in " + span(t.Sub(now))
	}
	return span(now.Sub(t)) + " ago"
}
