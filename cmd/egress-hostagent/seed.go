package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/seed"
)

func seedCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "seed",
		Short: "Build and look into cloud-init seed images",
	}
	group(c)
	c.AddCommand(seedBuildCommand(o), seedInspectCommand())
	return c
}

func seedBuildCommand(o *options) *cobra.Command {
	var out, instance string
	c := &cobra.Command{
		Use:   "build SPEC",
		Short: "Build the seed image of a spec, as the agent would",
		Long: `Build writes the NoCloud seed (an ISO 9660 image labelled "cidata") that a guest
of SPEC gets. It holds the user-data: keep it as private as that is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(o)
			if err != nil {
				return err
			}
			file := args[0]
			name := strings.TrimSuffix(filepath.Base(file), ".toml")
			s, err := decodeFile(cfg, name, file)
			if err != nil {
				return err
			}
			if out == "" {
				out = name + ".iso"
			}
			who, err := whoAmI(cfg)
			if err != nil {
				return err
			}
			mac := func(n int) string { return domxml.MAC(who.ID, domxml.Identity(s.Name, 0), n) }
			return buildSeed(cmd, s.SeedInput(instance, mac), out)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file to write (default NAME.iso)")
	c.Flags().StringVar(&instance, "instance-id", "i-0000000000000000", "instance-id in the meta-data")
	return c
}

// buildSeed stages in a directory of its own, which it removes.
func buildSeed(cmd *cobra.Command, in seed.Input, out string) error {
	staging, err := os.MkdirTemp("", "egress-hostagent-seed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := seed.UseStaging(staging); err != nil {
		return err
	}
	img, err := seed.Build(in)
	if err != nil {
		return err
	}
	if err := seed.WriteFile(out, 0o600, img); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, sha256 %s\n", out, len(img.Bytes), img.SHA256)
	return nil
}

func seedInspectCommand() *cobra.Command {
	var show string
	c := &cobra.Command{
		Use:   "inspect IMAGE",
		Short: "List what a seed image holds",
		Long: `Inspect prints the volume label and the files of a seed image with their sizes
and digests; contents only on request, with --show, because user-data may hold
secrets.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := config.OpenRegular(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			got, err := seed.Inspect(f)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printSeed(cmd, got, show)
		},
	}
	c.Flags().StringVar(&show, "show", "", "print the content of this file (user-data, meta-data, …)")
	return c
}

func printSeed(cmd *cobra.Command, got seed.Contents, show string) error {
	out := cmd.OutOrStdout()
	if show != "" {
		content, ok := got.Files[show]
		if !ok {
			return fmt.Errorf("the image holds no %s, but %s", printable(show), printable(strings.Join(slices.Sorted(maps.Keys(got.Files)), ", ")))
		}
		_, err := out.Write(content)
		return err
	}
	fmt.Fprintf(out, "label %s\n", printable(got.Label))
	for _, name := range slices.Sorted(maps.Keys(got.Files)) {
		fmt.Fprintf(out, "%-16s %9d bytes  sha256 %s\n", printable(name), len(got.Files[name]), sha256Hex(got.Files[name]))
	}
	return nil
}
