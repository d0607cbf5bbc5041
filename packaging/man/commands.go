// Package man makes the man pages that the packages ship: those of section 8
// from the command line itself, those of section 5 from the documents of the
// repository. It owns how a page looks; what it says stands in the commands
// and the documents. It is used when packages are built and is no part of the
// agent.
package man

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const (
	source = "egress-hostagent"
	manual = "egress-hostagent"
)

// Commands writes a page of section 8 for root and for each command beneath it
// that help shows, into dir, which exists: NAME.8, with a hyphen for each space
// of the name. Pages carry date, in UTC. It adds to root what cobra adds when
// root is executed; root should not be used any more.
func Commands(root *cobra.Command, dir string, date time.Time) error {
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	hideHelp(root)
	root.DisableAutoGenTag = true
	date = date.UTC()
	header := &doc.GenManHeader{Section: "8", Source: source, Manual: manual, Date: &date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write man pages to %s: %w", dir, err)
	}
	return nil
}

// hideHelp leaves out the commands named help, which say nothing that the pages
// do not.
func hideHelp(c *cobra.Command) {
	c.SetHelpCommand(&cobra.Command{Hidden: true})
	for _, sub := range c.Commands() {
		hideHelp(sub)
	}
}
