//go:build manpages

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/packaging/man"
)

// documents are the pages of section 5.
var documents = []struct{ file, name, short string }{
	{"docs/CONFIG.md", "egress-hostagent-config", "configuration of the egress proxy agent"},
	{"docs/SPEC.md", "egress-hostagent-spec", "what an egress proxy is to be"},
}

// buildCommands are those that only building the packages needs.
func buildCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:    "manpages DIR",
		Short:  "Write the man pages into DIR, of the documents beneath the working directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
			if err != nil {
				return fmt.Errorf("SOURCE_DATE_EPOCH, the date of the pages: %w", err)
			}
			return writePages(args[0], time.Unix(epoch, 0))
		},
	}}
}

func writePages(dir string, date time.Time) error {
	for _, d := range documents {
		text, err := os.ReadFile(d.file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.name+".5"), man.Document(d.name, d.short, text, date), 0o644); err != nil {
			return err
		}
	}
	return man.Commands(root(), dir, date)
}
