package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Obey changes the memory as an operator orders, or says why that is not
// possible. in is what the next Make would be given, last what the latest one
// decided: an order is about what was shown.
func Obey(in Input, last Result, o order.Order) (Memory, string, error) {
	m := in.Memory
	if err := o.Check(); err != nil {
		return m, "", err
	}
	switch {
	case o.Verb == order.Release:
		return release(m, last, o.Digest)
	case o.All:
		return obeyAll(in, o)
	}
	i := slices.IndexFunc(last.Proxies, func(p status.Proxy) bool { return p.Name == o.Name })
	if i < 0 {
		return m, "", fmt.Errorf("there is no proxy %.200q; status lists those there are", o.Name)
	}
	if o.Verb == order.Abandon {
		return abandon(in, last.Proxies[i])
	}
	p := m.Proxies[o.Name]
	text, err := p.obey(in, last.Proxies[i], o.Verb)
	if err != nil {
		return m, "", err
	}
	m.Proxies = maps.Clone(m.Proxies)
	m.Proxies[o.Name] = p
	if o.Verb == order.Resume && p.Last != nil {
		m.Images = maps.Clone(m.Images)
		delete(m.Images, p.Last.Image.SHA256)
	}
	return m, text, nil
}

// obey changes the memory of the proxy that st shows.
func (p *Proxy) obey(in Input, st status.Proxy, verb order.Verb) (string, error) {
	_, listed := in.Desired.Proxies[st.Name]
	synced, _ := st.Condition(status.Synced)
	switch verb {
	case order.Recreate:
		instance := guestOf(in, st)
		if instance == "" || !listed {
			return "", fmt.Errorf("proxy %s has no guest that could be made anew: %s", st.Name, orNone(st.Next))
		}
		p.Recreate = instance
		return fmt.Sprintf("proxy %s is made anew, in its turn; its guest %s and what is on its disk go when the new one is defined", st.Name, instance), nil
	case order.Delete:
		if listed {
			return "", fmt.Errorf("proxy %s is listed by its %s source and would come back at once: remove %s instead", st.Name, st.Origin, orElse(st.File, "it from there"))
		}
		if !in.Desired.AllSeen() {
			return "", fmt.Errorf("not every source of specs has been read yet, and one of them may list proxy %s: see status", st.Name)
		}
		p.Delete, p.Held = true, Hold{}
		return fmt.Sprintf("proxy %s is removed with its disk", st.Name), nil
	case order.Adopt:
		if synced.Reason != reasonLost {
			return "", fmt.Errorf("proxy %s has not lost its ownership metadata: there is nothing to adopt", st.Name)
		}
		p.Adopt = true
		return fmt.Sprintf("the ownership metadata of proxy %s is written again from its record", st.Name), nil
	case order.Pause:
		p.Paused = true
		return fmt.Sprintf("the agent keeps its hands off proxy %s until: egress-hostagent resume %s", st.Name, st.Name) + underWay(in, st.Name), nil
	default:
		p.resume()
		if in.Memory.PausedAll {
			return fmt.Sprintf("proxy %s is no longer paused by name; everything is paused until: egress-hostagent resume --all", st.Name), nil
		}
		return fmt.Sprintf("proxy %s is the agent's again; what waited for a later try is tried now", st.Name), nil
	}
}

// guestOf is the incarnation that a proxy's domain is defined on, or would be
// if it was not lost. A domain that can not be seen is not lost.
func guestOf(in Input, st status.Proxy) string {
	_, there := in.Observed.Domains[st.UUID]
	_, unsure := in.Observed.Unsure[st.UUID]
	if there || st.Instance != "" || unsure || !in.Observed.Libvirt.Synced {
		return st.Instance
	}
	last := ""
	for _, i := range in.Observed.Tree.Incarnations[st.Name] {
		if r := i.Record; r != nil && r.Host == in.Policy.HostID && r.UUID == st.UUID && !r.Abandoned && i.Overlay {
			last = i.Instance
		}
	}
	return last
}

// resume ends all that keeps the agent from its next try.
func (p *Proxy) resume() {
	p.Paused = false
	for _, r := range p.retries() {
		*r = Retry{}
	}
	if p.Down.Failed != "" {
		p.Down = Down{}
	}
	p.Starts.Short, p.Resumes = 0, Starts{}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// release lets exactly the set go on that was shown with that digest.
func release(m Memory, last Result, digest string) (Memory, string, error) {
	i := slices.IndexFunc(last.Holds, func(h status.Hold) bool { return h.Digest == digest })
	if i < 0 {
		if len(last.Holds) == 0 {
			return m, "", errors.New("nothing is held")
		}
		return m, "", fmt.Errorf("no set with the digest %s is held: it is another set by now; look at status again", digest)
	}
	set := last.Holds[i]
	m.Proxies = maps.Clone(m.Proxies)
	for _, name := range set.Proxies {
		p := m.Proxies[name]
		p.Released, p.Held = p.Held, Hold{}
		m.Proxies[name] = p
	}
	return m, fmt.Sprintf("the %s of %d proxies goes on: %s", set.Kind, len(set.Proxies), some(set.Proxies)), nil
}

func obeyAll(in Input, o order.Order) (Memory, string, error) {
	m := in.Memory
	switch o.Verb {
	case order.Pause:
		m.PausedAll = true
		return m, "the agent keeps its hands off everything until: egress-hostagent resume --all", nil
	case order.Adopt:
		return adoptAll(in)
	}
	m.PausedAll = false
	m.Proxies = maps.Clone(m.Proxies)
	var still []string
	for name, p := range m.Proxies {
		if p.Paused {
			still = append(still, name)
			continue
		}
		p.resume()
		m.Proxies[name] = p
	}
	text := "the agent is at work again"
	if len(still) > 0 {
		slices.Sort(still)
		text += "; still paused by name: " + some(still)
	}
	return m, text, nil
}

// abandon writes the tombstone; nothing is looked up (invariant 5).
func abandon(in Input, st status.Proxy) (Memory, string, error) {
	m := in.Memory
	m.bury(st.UUID, st.Name, in.Generations[st.Name], "ordered by an operator", in.Now)
	m.Proxies = maps.Clone(m.Proxies)
	delete(m.Proxies, st.Name)
	text := fmt.Sprintf("domain %s (%s) is left as it is, for good; rename or remove it to free its name", domxml.DomainName(st.Name), st.UUID)
	return m, text + underWay(in, st.Name), nil
}

// underWay warns of a step that has begun and that nothing can stop.
func underWay(in Input, name string) string {
	if k, busy := in.Observed.Busy[name]; busy {
		return fmt.Sprintf("; a step that is under way (%s) may still take effect: look at it again", k)
	}
	return ""
}

// adoptAll takes on the host id that the VMs and the image tree of this host
// carry, so that all of them keep their names, UUIDs and MACs.
func adoptAll(in Input) (Memory, string, error) {
	m := in.Memory
	ids := StrangeHosts(in.Policy.HostID, in.Observed)
	switch len(ids) {
	case 0:
		return m, "", errors.New("nothing here carries another host id: there is nothing to adopt")
	case 1:
		if in.Policy.HostIDGiven {
			return m, "", fmt.Errorf("the config sets this host's id: set id = %q in [host] there, and reload the agent", ids[0])
		}
		m.HostID = ids[0]
		return m, fmt.Sprintf("the host id is %s from now on; all VMs that carry it are this agent's again", ids[0]), nil
	}
	return m, "", fmt.Errorf("VMs and image tree carry %d other host ids (%s): remove what is not this host's, or set id in [host] of the config", len(ids), some(ids))
}

// StrangeHosts gives the host ids that tell of this host's own id having
// changed: the one in the image tree's marker, and, unless that is ours, those
// of genuine domains while none carries ours.
func StrangeHosts(hostID string, obs Observed) []string {
	ids := map[string]bool{}
	switch obs.Tree.Marker {
	case observe.MarkerOK:
		return nil
	case observe.MarkerForeign:
		ids[obs.Tree.Host] = true
	}
	for _, d := range obs.Domains {
		if d.Owner == nil || !genuine(d) {
			continue
		}
		if d.Owner.Host == hostID {
			return nil
		}
		ids[d.Owner.Host] = true
	}
	delete(ids, "")
	return slices.Sorted(maps.Keys(ids))
}
