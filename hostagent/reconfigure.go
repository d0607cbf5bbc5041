package hostagent

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Tuning is what of an agent's parts can change while it runs. Host id and
// origins in Settings have to stay as they are: they are what the model hangs on.
type Tuning struct {
	Settings Settings
	Prober   Prober
	Actions  int // actions at once, at least 1
}

// Retune makes t count, as the outcome of a configuration that was read again.
// What is under way goes on as it was begun.
func (a *Agent) Retune(ctx context.Context, t Tuning) {
	a.send(ctx, retuned{Reconfigured{Settings: &t.Settings}, t})
}

// RefuseConfig notes why the configuration on disk does not count, for people;
// what counted before goes on to. Retune takes it back, and so does an empty
// problem.
func (a *Agent) RefuseConfig(ctx context.Context, problem string) {
	a.send(ctx, Reconfigured{Problem: problem})
}

// retuned carries to the planner's goroutine what the Core does not need.
type retuned struct {
	Reconfigured
	Tuning
}

// tune takes over what is the Agent's own, on the planner's goroutine.
func (a *Agent) tune(t Tuning) {
	a.p.Prober = t.Prober
	a.lanes[laneActions].limit = max(t.Actions, 1)
}

// reconfigured takes over settings. Everything is looked at anew within the new
// intervals; what the new settings ask for is the next pass's to decide.
func (c *Core) reconfigured(now time.Time, ev Reconfigured) {
	if c.refused != ev.Problem {
		c.refused, c.refusedAt = ev.Problem, now
	}
	if ev.Settings == nil {
		return
	}
	c.set = *ev.Settings
	c.merge()
	c.nextResync = earlier(c.nextResync, now.Add(c.set.Resync))
	for _, w := range c.watches {
		w.nextProbe = earlier(w.nextProbe, now.Add(c.set.ProbeInterval))
	}
}

// configRead is the host's condition that says whether the configuration on
// disk is the one that counts.
func (c *Core) configRead() status.Condition {
	if c.refused == "" {
		return status.Condition{Type: status.ConfigRead, Status: status.True, Reason: "Read", Since: earlier(c.began, c.refusedAt)}
	}
	return status.Condition{
		Type: status.ConfigRead, Status: status.False, Reason: "ConfigRejected", Since: c.refusedAt,
		Message: c.refused + "; until it is corrected and the agent reloaded, the configuration read before stands",
	}
}
