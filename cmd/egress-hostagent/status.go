package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

func statusCommand(o *options) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show how this host and its proxies are",
		Long: `Status asks the running agent. With NAME it shows that proxy alone, with all of
its conditions. Exit code 0: all is well; 1: something is not ready; 3: the
agent does not run.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: proxyNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := fetchStatus(cmd, o)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(args) == 1 {
				return showProxy(out, host, args[0], asJSON)
			}
			if asJSON {
				return printJSON(out, host)
			}
			printHost(out, host)
			return healthy(host)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole status document")
	return c
}

func listCommand(o *options) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the proxies that serve, for programs",
		Long: `List prints the proxies that run, have an address and answered their last probe
as expected: one URL a line, or a JSON list. A proxy whose spec has just been
broken by an edit serves on with its last good one and stays listed, and so does
one that answers its probe while libvirt can not be seen.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "urls" && format != "json" {
				return &codedError{exitUsage, fmt.Errorf("--format %q: want urls or json", format)}
			}
			host, err := fetchStatus(cmd, o)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), host, format)
		},
	}
	c.Flags().StringVar(&format, "format", "urls", "urls or json")
	return c
}

func fetchStatus(cmd *cobra.Command, o *options) (host status.Host, err error) {
	ctx, cancel := waitContext(cmd.Context(), 10*time.Second)
	defer cancel()
	err = askAgent(o, cmd.ErrOrStderr(), func(socket string) (err error) {
		host, err = control.Dial(socket).Status(ctx)
		return err
	})
	if errors.Is(err, control.ErrNotRunning) {
		return host, &codedError{exitNotRunning, err}
	}
	if errors.Is(err, fs.ErrPermission) {
		return host, &codedError{exitError, err}
	}
	return host, err
}

// serves tells whether clients can use the proxy now. While libvirt can not be
// seen, a proxy that answers its probe serves all the same.
func serves(p status.Proxy) bool {
	reachable, probed := p.Condition(status.Reachable)
	probed = probed && reachable.Applies()
	if p.Leaving || p.URL == "" || probed && reachable.Status != status.True {
		return false
	}
	for _, typ := range []string{status.Running, status.Addressed} {
		c, _ := p.Condition(typ)
		if c.Status != status.True && !(probed && c.Status == status.Unknown) {
			return false
		}
	}
	return true
}

func printList(out io.Writer, host status.Host, format string) error {
	type entry struct {
		Name      string            `json:"name"`
		URL       string            `json:"url"`
		Addresses []status.Address  `json:"addresses"`
		Egress    netip.Addr        `json:"egress_address,omitzero"` // the proxy's claim
		Labels    map[string]string `json:"labels,omitempty"`
	}
	list := []entry{}
	for _, p := range host.Proxies {
		if serves(p) {
			list = append(list, entry{p.Name, p.URL, p.Addresses, p.Egress, p.Labels})
		}
	}
	if format == "json" {
		return printJSON(out, list)
	}
	for _, e := range list {
		fmt.Fprintln(out, e.URL)
	}
	return nil
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// errQuiet sets an exit code; what there is to say is on standard output.
var errQuiet = errors.New("")

// healthy gives exit code 1 when something is not as it should be.
func healthy(host status.Host) error {
	ok := true
	for _, c := range host.Conditions {
		ok = ok && c.Status == status.True
	}
	for _, p := range host.Proxies {
		ok = ok && well(p)
	}
	for _, s := range host.Sources {
		ok = ok && len(s.Problems) == 0
	}
	if !ok {
		return &codedError{exitError, errQuiet}
	}
	return nil
}

// counts says how many domains there are of each kind that there are any of.
func counts(c status.Counts) string {
	line := fmt.Sprintf("%d managed", c.Managed)
	for _, k := range []struct {
		n    int
		kind string
	}{{c.Orphaned, "of them orphaned"}, {c.Abandoned, "abandoned"}, {c.Foreign, "of others"}} {
		if k.n > 0 {
			line += fmt.Sprintf(", %d %s", k.n, k.kind)
		}
	}
	return line
}

// well tells whether a proxy is as its spec asks.
func well(p status.Proxy) bool { return p.IsReady() || p.Phase == status.PhaseOff }

func printHost(out io.Writer, host status.Host) {
	fmt.Fprintf(out, "host %s (%s), agent %s, libvirt %s\n", printable(host.Host), short(host.HostID), host.Version, host.Libvirt)
	for _, c := range host.Conditions {
		if c.Status != status.True {
			wrap(out, "! ", fmt.Sprintf("%s: %s: %s", c.Type, c.Reason, c.Message))
		}
	}
	for _, p := range host.Problems {
		wrap(out, "! ", p)
	}
	for _, s := range host.Sources {
		fmt.Fprintf(out, "source %s %s: %d proxies, %s\n", s.Origin, printable(s.Location), s.Proxies, sourceAge(s, host))
		for _, p := range s.Problems {
			wrap(out, "! ", p)
		}
		if len(s.Shadowed) > 0 {
			wrap(out, "", "shadowed by a file of the same name: "+strings.Join(s.Shadowed, ", "))
		}
	}
	if host.Manifest != nil {
		for _, line := range credentialTroubles(*host.Manifest) {
			wrap(out, "! ", line)
		}
	}
	fmt.Fprintln(out, "domains: "+counts(host.Counts))
	for _, i := range host.Images {
		if i.State == "fetching" || i.State == "failed" {
			wrap(out, "", fmt.Sprintf("image %s: %s: %s", i.Key, i.State, i.Detail))
		}
	}
	if len(host.Proxies) == 0 {
		fmt.Fprintln(out, "no proxies; drop a spec into the source's directory")
		return
	}
	fmt.Fprintln(out)
	printTable(out, host)
}

// printTable prints a row per proxy. The last column takes what the others
// leave of the width.
func printTable(out io.Writer, host status.Host) {
	rows := [][]string{{"NAME", "PHASE", "ADDRESS", "FOR", "WHY NOT READY"}}
	for _, p := range host.Proxies {
		rows = append(rows, []string{clip(p.Name, 24), string(p.Phase), primary(p), age(p, host.Time), whyNot(p)})
	}
	used := 0
	for col := range 4 {
		widest := 0
		for _, r := range rows {
			widest = max(widest, len([]rune(r[col])))
		}
		used += widest + 2
	}
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		r[4] = clip(r[4], max(width-used, 13))
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(r, "\t"), "\t"))
	}
	_ = tw.Flush()
}

// sourceAge says how old what a source says is.
func sourceAge(s status.Source, host status.Host) string {
	age := readAge(s, host.Time)
	m := host.Manifest
	if s.Origin != source.OriginManifest || m == nil || m.Revision == 0 {
		return age
	}
	if m.FromCache {
		return fmt.Sprintf("revision %d, kept from before, %s", m.Revision, age)
	}
	return fmt.Sprintf("revision %d, %s", m.Revision, age)
}

func readAge(s status.Source, now time.Time) string {
	if s.LastRead.IsZero() {
		return "not read yet"
	}
	return "read " + span(now.Sub(s.LastRead)) + " ago"
}

func primary(p status.Proxy) string {
	if len(p.Addresses) == 0 {
		return "-"
	}
	return p.Addresses[0].Address.String()
}

// age is how long Ready has had its present status.
func age(p status.Proxy, now time.Time) string {
	c, _ := p.Condition(status.Ready)
	return span(now.Sub(c.Since))
}

func whyNot(p status.Proxy) string {
	if well(p) {
		return ""
	}
	c, _ := p.Condition(status.Ready)
	if s, _ := p.Condition(status.Synced); p.Phase == status.PhaseBlocked || p.Phase == status.PhasePaused || s.Reason == "SpecInvalid" {
		return s.Reason
	}
	if p.Next != "" {
		return p.Next
	}
	return c.Reason
}

func showProxy(out io.Writer, host status.Host, name string, asJSON bool) error {
	for _, p := range host.Proxies {
		if p.Name != name {
			continue
		}
		if asJSON {
			return printJSON(out, p)
		}
		printProxy(out, p, host.Time)
		if !well(p) {
			return &codedError{exitError, errQuiet}
		}
		return nil
	}
	return fmt.Errorf("no proxy %s on this host; \"status\" lists those there are", printable(name))
}

func printProxy(out io.Writer, p status.Proxy, now time.Time) {
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(k, v string) {
		if v != "" {
			fmt.Fprintf(tw, "%s\t%s\n", k, printable(v))
		}
	}
	row("name", p.Name)
	row("phase", string(p.Phase))
	row("url", p.URL)
	for _, a := range p.Addresses {
		stale := ""
		if a.Stale {
			stale = ", stale"
		}
		row("address", fmt.Sprintf("%s (%s, %s ago%s)", a.Address, a.Source, span(now.Sub(a.Seen)), stale))
	}
	if p.Egress.IsValid() {
		row("egress", p.Egress.String()+" (by its own account)")
	}
	row("next", p.Next)
	row("spec", strings.TrimSpace(p.Origin+" "+p.File))
	row("domain", p.UUID)
	row("instance", p.Instance)
	if p.Starts > 0 {
		row("starts", strconv.Itoa(p.Starts))
	}
	_ = tw.Flush()
	for _, w := range p.Warnings {
		wrap(out, "warning: ", w)
	}
	fmt.Fprintln(out)
	tw = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "CONDITION\tSTATUS\tREASON\tFOR")
	for _, c := range p.Conditions {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, span(now.Sub(c.Since)))
	}
	_ = tw.Flush()
	for _, c := range p.Conditions {
		if c.Message != "" && c.Type != status.Ready {
			wrap(out, "", c.Type+": "+c.Message)
		}
	}
}
