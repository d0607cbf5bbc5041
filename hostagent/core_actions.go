package hostagent

import (
	"errors"
	"maps"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// actionDone takes an action's end, with what was seen right after it.
func (c *Core) actionDone(now time.Time, ev ActionDone) []Effect {
	a := ev.Action
	if c.concerns(a) && !errors.Is(ev.Err, errHandsOff) {
		c.memory = c.memory.Done(a, outcome(ev), now)
	}
	if ev.Tree != nil {
		c.obs.Tree, c.treeAt = *ev.Tree, c.clock
	}
	if a.Kind == plan.FetchImage {
		delete(c.obs.Fetching, a.Image.SHA256)
		return nil
	}
	delete(c.obs.Busy, a.Name)
	if a.Name == "" {
		return nil
	}
	if !ev.Blind {
		c.incarnations(a.Name, ev.Incarnations)
	}
	if a.Kind == plan.Start || a.Kind == plan.Destroy {
		c.startWatching(a.Name, now)
	}
	var out []Effect
	if ev.Look != nil {
		out = c.saw(now, *ev.Look)
	}
	if a.Kind == plan.Resume {
		out = append(out, c.measure()...)
	}
	if ev.Err != nil || ev.Blind {
		out = append(out, c.scan()...) // the tree may be why
	}
	return out
}

// outcome is what became of an action: a start that libvirt was too slow to
// confirm is one all the same when the domain runs.
func outcome(ev ActionDone) error {
	if ev.Action.Kind == plan.Start && ev.Look != nil && ev.Look.Err == nil && ev.Look.Domain.Power == observe.PowerRunning {
		return nil
	}
	return ev.Err
}

// concerns tells whether an action's end says something of what is there now: a
// VM may have been abandoned under it, and another taken its name.
func (c *Core) concerns(a plan.Action) bool {
	return a.Name == "" || a.Kind == plan.Disown || a.UUID == c.uuidOf(a.Name)
}

// measure looks anew how much room the image tree has: a write has just
// failed, or is about to be tried.
func (c *Core) measure() []Effect {
	c.obs.Measuring, c.treeAt = true, c.clock
	return c.scan()
}

// incarnations puts one name's fresh scan into the model, which is otherwise
// replaced as a whole: a scan that is under way is older, so it is repeated.
func (c *Core) incarnations(name string, incs []observe.Incarnation) {
	c.treeAt = c.clock
	m := maps.Clone(c.obs.Tree.Incarnations)
	if m == nil {
		m = map[string][]observe.Incarnation{}
	}
	if len(incs) == 0 {
		delete(m, name)
	} else {
		m[name] = incs
	}
	c.obs.Tree.Incarnations = m
}
