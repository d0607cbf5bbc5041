package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func validateCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check spec files, and the configuration, without touching anything",
		Long: `Validate checks each spec file the way the agent does, against the images,
machine types and defaults of the configuration, and prints every problem with
its file, line and column. A file named config.toml is checked as the agent's
configuration. Exit code 1 when any file has a problem.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			cfg, err := loadConfig(o)
			if err != nil {
				return err
			}
			bad := 0
			for _, f := range files {
				warnings, err := validateFile(cfg, f)
				for _, w := range warnings {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: warning: %s\n", printable(f), printable(w))
				}
				if err != nil {
					bad++
					for line := range strings.Lines(err.Error()) {
						fmt.Fprintln(cmd.OutOrStdout(), printable(strings.TrimSuffix(line, "\n")))
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", printable(f))
			}
			if bad > 0 {
				return fmt.Errorf("problems in %d of %d files", bad, len(files))
			}
			return nil
		},
	}
}

func validateFile(cfg config.Config, file string) (warnings []string, err error) {
	base := filepath.Base(file)
	if base == "config.toml" {
		_, err := config.Load(file)
		return nil, err
	}
	name, ok := strings.CutSuffix(base, ".toml")
	if !ok {
		return nil, fmt.Errorf("%s: a spec's file name ends in .toml (lower case), or the agent does not read it: rename it", file)
	}
	if err := spec.CheckName("proxy", name); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s, err := decodeFile(cfg, name, file)
	if err != nil {
		return nil, err
	}
	return s.Warnings(), nil
}

// decodeFile reads one spec file with the files it names.
func decodeFile(cfg config.Config, name, file string) (spec.Spec, error) {
	data, err := config.ReadDocument(file)
	if err != nil {
		return spec.Spec{}, err
	}
	open, done, err := openBeneath(filepath.Dir(file))
	if err != nil {
		return spec.Spec{}, err
	}
	defer done()
	return decoder(cfg)(name, file, data, open)
}

// openBeneath reads files beneath dir only, as the agent does.
func openBeneath(dir string) (open func(string) ([]byte, error), done func(), err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	open = func(rel string) ([]byte, error) {
		if filepath.IsAbs(rel) {
			return nil, errors.New("must be relative to the spec's directory")
		}
		return root.ReadFile(rel)
	}
	return open, func() { _ = root.Close() }, nil
}
