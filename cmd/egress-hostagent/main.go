// Command egress-hostagent is the daemon on a KVM host and the command line
// that talks to it. It is the only place that builds a link to libvirt and
// hands it to the agent; everything it prints and every exit code is decided
// here, everything else in the packages below.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker at release.
var version = "dev"

// builtAt is the time of its source, in RFC 3339, set by the linker at release: a
// clock that is earlier is wrong.
var builtAt string

// Exit codes. 78 is EX_CONFIG of sysexits.h: the unit does not restart on it.
const (
	exitError      = 1
	exitUsage      = 2
	exitNotRunning = 3
	exitConfig     = 78
)

// exitError carries an exit code to main.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	if err := root().ExecuteContext(ctx); err != nil {
		code := exitError
		var coded *codedError
		if errors.As(err, &coded) {
			code = coded.code
		}
		if msg := err.Error(); msg != "" {
			fmt.Fprintln(os.Stderr, "egress-hostagent: "+msg)
		}
		stop()
		os.Exit(code)
	}
}

// options are the flags that every command has.
type options struct {
	config string
}

func root() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "egress-hostagent",
		Short: "Run egress proxies as small VMs on this KVM host",
		Long: `egress-hostagent turns each file of a directory into a running proxy VM and
takes the VM away with the file.

Exit codes: 0 success, 1 error or not healthy, 2 wrong use, 3 the agent does
not run, 78 the configuration is wrong.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.PersistentFlags().StringVarP(&o.config, "config", "c", defaultConfig, "configuration file")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &codedError{exitUsage, fmt.Errorf("%w; see --help", err)}
	})
	c.Version = version
	group(c)
	c.AddCommand(runCommand(o), validateCommand(o), planCommand(o), statusCommand(o), listCommand(o),
		seedCommand(o), manifestCommand(o), doctorCommand(o), initTreeCommand(o), versionCommand())
	c.AddCommand(orderCommands(o)...)
	c.AddCommand(buildCommands()...)
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
	return c
}

// usage is the error for a command line that is wrong.
func usage(format string, a ...any) error {
	return &codedError{exitUsage, fmt.Errorf(format+"; see --help", a...)}
}

// group makes a command that only holds others refuse what it does not hold.
func group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usage("there is no command %q of %s", args[0], cmd.CommandPath())
	}
}

// checkArgs makes wrong arguments of a command and those beneath it say how it
// is called, with the exit code for wrong use.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return usage("%s is called as: egress-hostagent %s", cmd.CommandPath(), strings.TrimPrefix(cmd.UseLine(), "egress-hostagent "))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}
