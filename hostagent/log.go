package hostagent

import (
	"context"
	"log/slog"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// logger is the log of what concerns an action.
func (a *Agent) logger(act plan.Action) *slog.Logger {
	switch act.Kind {
	case plan.FetchImage:
		return a.p.Log.With("action", string(act.Kind), "image", act.Image.Key, "source", act.Image.Source)
	case plan.InitTree, plan.Collect:
		return a.p.Log.With("action", string(act.Kind))
	}
	return a.p.Log.With("action", string(act.Kind), "proxy", act.Name)
}

func (a *Agent) logAction(act plan.Action) {
	a.logger(act).Debug("begin", "reason", act.Reason)
}

func (a *Agent) logDone(done ActionDone) {
	l := a.logger(done.Action).With("reason", done.Action.Reason, "took", a.took(done.Action).String())
	if done.Err != nil {
		l.Warn("failed", "error", done.Err)
		return
	}
	l.Info("done")
}

// logChanges says each change of a condition once: a standing fault is one
// line, however long it stands.
func (a *Agent) logChanges() {
	for _, ch := range a.core.Planned().Changes {
		c := ch.Condition
		l, level := a.p.Log, slog.LevelInfo
		if ch.Name != "" {
			l = l.With("proxy", ch.Name)
		}
		switch {
		case c.Status == status.Unknown, c.Type == status.Ready && c.Status != status.True:
			level = slog.LevelDebug // for a moment only, or another condition says why
		case ch.Name == "" && c.Status != status.True, c.Type == status.Synced && ch.Phase == status.PhaseBlocked:
			level = slog.LevelWarn
		}
		l.Log(context.Background(), level, "condition", "type", c.Type, "status", string(c.Status), "cause", c.Reason, "detail", c.Message)
	}
}

// sweep is what the log was last told of how many VMs there are.
type sweep struct {
	counts status.Counts
	at     time.Time
}

// sweepEvery is how often the counts are logged though they are the same.
const sweepEvery = time.Hour

// logSweep says how many VMs of each kind there are: when that changes, and now
// and then.
func (a *Agent) logSweep(h *status.Host) {
	seen, _ := h.Condition(status.LibvirtConnected)
	now := a.p.Now()
	if seen.Status != status.True || h.Counts == a.swept.counts && now.Sub(a.swept.at) < sweepEvery && !a.swept.at.IsZero() {
		return
	}
	a.swept = sweep{h.Counts, now}
	a.p.Log.Info("sweep", "managed", h.Managed, "orphaned", h.Orphaned, "abandoned", h.Abandoned, "foreign", h.Foreign)
}

// logProblems says each problem of the sources once, while it stands. The
// manifest's source has said its own.
func (a *Agent) logProblems(h *status.Host) {
	now := map[string]bool{}
	for _, s := range h.Sources {
		for _, problem := range s.Problems {
			now[problem] = true
			if !a.said[problem] && s.Origin != source.OriginManifest {
				a.p.Log.Warn("spec problem", "problem", problem)
			}
		}
	}
	for _, p := range h.Proxies {
		for _, w := range p.Warnings {
			line := p.Name + ": " + w
			now[line] = true
			if !a.said[line] {
				a.p.Log.Warn("spec warning", "proxy", p.Name, "file", p.File, "warning", w)
			}
		}
	}
	a.said = now
}
