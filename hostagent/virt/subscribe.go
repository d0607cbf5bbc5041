package virt

import (
	"errors"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// subscribe registers the event callbacks. Only lifecycle events are
// indispensable: a driver may lack the others.
func (c *Conn) subscribe(k *link) error {
	w := what{opConnect, c.opt.URI}
	for _, register := range []func(*libvirt.Connect) (int, error){c.onLifecycle, c.onAgent, c.onMetadata} {
		id, err := register(k.conn)
		switch {
		case err == nil:
			k.callbacks = append(k.callbacks, id)
		case len(k.callbacks) > 0 && errors.Is(err, libvirt.ERR_NO_SUPPORT):
		default:
			return w.wrap(err, k.alive())
		}
	}
	return nil
}

func (c *Conn) onLifecycle(conn *libvirt.Connect) (int, error) {
	return conn.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, ev *libvirt.DomainEventLifecycle) {
		c.hint(observe.DomainChanged, d, ev.String())
	})
}

func (c *Conn) onAgent(conn *libvirt.Connect) (int, error) {
	return conn.DomainEventAgentLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, ev *libvirt.DomainEventAgentLifecycle) {
		c.hint(observe.AgentChanged, d, agentState(ev.State))
	})
}

func (c *Conn) onMetadata(conn *libvirt.Connect) (int, error) {
	return conn.DomainEventMetadataChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMetadataChange) {
		c.hint(observe.DomainChanged, d, "metadata changed")
	})
}

func agentState(s libvirt.ConnectDomainEventAgentLifecycleState) string {
	if s == libvirt.CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED {
		return "guest agent connected"
	}
	return "guest agent disconnected"
}

// hint is called on libvirt's loop: no call that could wait, and nothing of d
// kept.
func (c *Conn) hint(kind observe.EventKind, d *libvirt.Domain, detail string) {
	uuid, err := d.GetUUIDString() // local
	if err != nil {
		return
	}
	c.mail.hint(observe.Event{Kind: kind, UUID: uuid, Detail: detail})
}
