package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

func doctorCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check what the agent leans on, each finding with its remedy",
		Long: `Doctor checks qemu-img, the specs, the image tree, /dev/kvm, libvirt, the
networks that specs use, and whether guests really run with the configured
acceleration: it boots a small domain that powers itself off. It leaves nothing
behind.

It also says which daemon serves the URI, libvirtd or the modular virtqemud,
and so what to restart for hooks and where logs are; and whether AppArmor or
SELinux confines guests and hooks, and what that means for the image tree.
What this user can not read is told and is no failure.

Run it as the agent's user to see what the agent sees:

    sudo -u egress-hostagent egress-hostagent doctor

Exit code 1 when a check failed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, w, err := quietly(o)
			if err != nil {
				return err
			}
			return doctor(cmd.Context(), cmd.OutOrStdout(), cfg, w)
		},
	}
}

// finding is the result of one check.
type finding struct {
	what   string
	level  level
	detail string
	remedy string
}

type level string

const (
	ok   level = "ok"
	warn level = "warn"
	fail level = "FAIL"
)

// printFinding prints a finding, with the remedy where one is due.
func printFinding(out io.Writer, f finding) {
	wrap(out, "", fmt.Sprintf("%-4s  %s: %s", f.level, f.what, f.detail))
	if f.level != ok && f.remedy != "" {
		wrap(out, "    ", "do: "+f.remedy)
	}
}

// doctor runs the checks in the order in which they depend on each other and
// prints each as it ends, since some take seconds.
func doctor(ctx context.Context, out io.Writer, cfg config.Config, w wired) error {
	failed := 0
	report := func(f finding) {
		if f.level == fail {
			failed++
		}
		printFinding(out, f)
	}
	report(checkQemuImg(ctx))
	report(checkSpecs(cfg))
	for _, f := range checkManifest(w) {
		report(f)
	}
	report(checkTree(cfg, w))
	report(checkKVM(cfg))
	linkCtx, cancel := waitContext(ctx, 15*time.Second)
	defer cancel()
	defer linkUp(linkCtx, w)()
	libvirt := checkLibvirt(linkCtx, cfg, w)
	report(libvirt)
	for _, f := range checkHost(ctx, os.DirFS("/"), cfg, w, libvirt.level != fail) {
		report(f)
	}
	if libvirt.level == fail {
		report(finding{"acceleration and networks", warn, "not checked, because libvirt is not reached", ""})
	} else {
		for _, f := range checkNetworks(ctx, cfg, w) {
			report(f)
		}
		fmt.Fprintln(out, "...   acceleration: booting a small domain, 30 s at most")
		report(checkAcceleration(ctx, cfg, w))
	}
	if failed > 0 {
		return &codedError{exitError, fmt.Errorf("checks failed: %d", failed)}
	}
	return nil
}
