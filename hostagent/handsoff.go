package hostagent

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// errHandsOff ends an action that an order has overtaken before it began.
var errHandsOff = errors.New("not begun: an operator ordered the hands off it")

// handsOff is what orders keep the agent from touching, for actions that were
// planned before: they wait in a lane, and libvirt may hang for long.
type handsOff struct {
	all    bool
	paused map[string]bool // by proxy name
	buried map[string]bool // by UUID
}

// newHandsOff is nil while there is no such order.
func newHandsOff(m plan.Memory) *handsOff {
	h := &handsOff{all: m.PausedAll, paused: map[string]bool{}, buried: map[string]bool{}}
	for name, p := range m.Proxies {
		if p.Paused {
			h.paused[name] = true
		}
	}
	for uuid := range m.Tombstones {
		h.buried[uuid] = true
	}
	if !h.all && len(h.paused)+len(h.buried) == 0 {
		return nil
	}
	return h
}

// keeps tells whether an action must not begin.
func (h *handsOff) keeps(a plan.Action) bool {
	if h == nil || a.Kind == plan.Disown && !h.all {
		return false
	}
	return h.all || h.paused[a.Name] || h.buried[a.UUID]
}
