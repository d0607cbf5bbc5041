package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/egress-proxies/egress-hostagent/packaging/man"
)

// TestEveryFlagIsInItsManPage: and every command that help shows has a page.
func TestEveryFlagIsInItsManPage(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), root()
	if err := man.Commands(c, dir, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	pages := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".8"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		seen := func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(page), `\fB--`+f.Name+`\fP`) {
				t.Errorf("%s: no --%s", name, f.Name)
			}
		}
		c.LocalFlags().VisitAll(seen)
		c.InheritedFlags().VisitAll(seen)
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(c)
	if files, err := os.ReadDir(dir); err != nil || len(files) != pages || pages < 20 {
		t.Errorf("%d pages of %d commands, error %v", len(files), pages, err)
	}
}
