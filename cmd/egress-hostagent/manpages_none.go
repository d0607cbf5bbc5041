//go:build !manpages

package main

import "github.com/spf13/cobra"

// buildCommands are those that only building the packages needs: none here, and
// none of what they need.
func buildCommands() []*cobra.Command { return nil }
