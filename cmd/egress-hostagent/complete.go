package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
)

// completionWait is how long somebody at a terminal waits for a completion.
const completionWait = 2 * time.Second

// proxyNames completes the only argument of a command with the names of the
// proxies there are. While the agent does not answer there are none.
func proxyNames(o *options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg, err := loadConfig(o)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := waitContext(cmd.Context(), completionWait)
		defer cancel()
		host, err := control.Dial(cfg.Control.Socket).Status(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, p := range host.Proxies {
			names = append(names, p.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
