package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

func initTreeCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "init-tree",
		Short: "Make an empty directory the image tree of this host",
		Long: `Init-tree writes the marker without which the agent touches no disk. The agent
does so itself at its first start; afterwards an empty image tree means that
its volume is not mounted, and only this command says otherwise. Run it as the
agent's user:

    sudo -u egress-hostagent egress-hostagent init-tree`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, w, err := quietly(o)
			if err != nil {
				return err
			}
			st, err := os.Stat(cfg.Tree)
			if err != nil {
				return err
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
				return fmt.Errorf("%s belongs to uid %d: run this as that user", cfg.Tree, sys.Uid)
			}
			syscall.Umask(0o007)
			if err := w.tree.InitMarker(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is the image tree of host id %s\n", cfg.Tree, w.parts.Settings.Policy.HostID)
			return nil
		},
	}
}
