package hostagent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// hostKey is the key of the one entry of kind state.Host.
const hostKey = "host"

// storedSpec is the last good spec of a proxy on disk.
type storedSpec struct {
	Origin string          `json:"origin"`
	File   string          `json:"file,omitempty"`
	Spec   json.RawMessage `json:"spec"`
}

// keeper knows what of the Core's memory is on disk, and finds what is not.
type keeper struct {
	host    plan.KeptHost
	proxies map[string]plan.Kept
	specs   map[string]keptSpec
	tombs   map[string]plan.Tombstone
	// doubtful are entries of a save that failed: it may have written them.
	doubtful map[place]bool

	tried    []place   // by the save under way
	commit   func()    // of the save under way; nil: there is none
	asked    uint64    // saves asked for so far
	next     time.Time // of the next save, after one that failed
	failures int
}

// place is where an entry is kept.
type place struct {
	kind state.Kind
	key  string
}

// keptSpec tells a spec from one that is on disk: at once by its address, and
// by the digest of its entry once it was read anew.
type keptSpec struct {
	spec *spec.Spec
	sum  [sha256.Size]byte
}

func newKeeper(k Kept) keeper {
	out := keeper{
		host: k.Memory.KeptHost, proxies: map[string]plan.Kept{}, specs: map[string]keptSpec{},
		tombs: maps.Clone(k.Memory.Tombstones), doubtful: map[place]bool{},
	}
	for name, p := range k.Memory.Proxies {
		out.proxies[name] = p.Kept
		if p.Last != nil {
			out.specs[name] = keptSpec{p.Last, k.sums[name]}
		}
	}
	if out.tombs == nil {
		out.tombs = map[string]plan.Tombstone{}
	}
	for uuid, t := range out.tombs {
		t.Saved = false
		out.tombs[uuid] = t
	}
	for _, uuid := range k.lost[state.Tombstone] {
		delete(out.tombs, uuid)
	}
	// What was lost is written again, or removed for good when nobody wants it.
	for _, name := range k.lost[state.Proxy] {
		out.proxies[name] = plan.Kept{Origin: "lost"}
	}
	for _, name := range k.lost[state.Spec] {
		out.specs[name] = keptSpec{}
	}
	return out
}

// wake is when a save that failed is tried again.
func (k *keeper) wake() time.Time {
	if k.commit != nil {
		return time.Time{}
	}
	return k.next
}

// delta is what differs from what is on disk, in the order in which it is to be
// written: tombstones first.
type delta struct {
	changes []state.Change
	commits []func()
	skipped []error // what can not be kept
}

func (d *delta) put(kind state.Kind, key string, body any, commit func()) {
	b, err := json.Marshal(body)
	if err != nil { // plain values only
		panic(fmt.Sprintf("encode %s %s: %v", kind, key, err))
	}
	d.changes = append(d.changes, state.Change{Entry: state.Entry{Kind: kind, Key: key, Body: b}})
	d.commits = append(d.commits, commit)
}

func (d *delta) remove(kind state.Kind, key string, commit func()) {
	d.changes = append(d.changes, state.Change{Entry: state.Entry{Kind: kind, Key: key}, Gone: true})
	d.commits = append(d.commits, commit)
}

// diff finds what of m is not on disk.
func (k *keeper) diff(m plan.Memory, file func(name string) string) delta {
	var d delta
	for uuid, t := range m.Tombstones {
		t.Saved = false
		if was, ok := k.tombs[uuid]; !ok || was != t {
			d.put(state.Tombstone, uuid, t, func() { k.tombs[uuid] = t })
		}
	}
	if !m.KeptHost.Equal(k.host) || k.doubtful[place{state.Host, hostKey}] {
		d.put(state.Host, hostKey, m.KeptHost, func() { k.host = m.KeptHost })
	}
	for name, p := range m.Proxies {
		if k.proxies[name] != p.Kept || k.doubtful[place{state.Proxy, name}] {
			d.put(state.Proxy, name, p.Kept, func() { k.proxies[name] = p.Kept })
		}
		if p.Last != nil && (k.specs[name].spec != p.Last || k.doubtful[place{state.Spec, name}]) {
			k.diffSpec(&d, name, p, file)
		}
	}
	for name := range k.proxies {
		if _, there := m.Proxies[name]; !there {
			d.remove(state.Proxy, name, func() { delete(k.proxies, name) })
		}
	}
	for name := range k.specs {
		if _, there := m.Proxies[name]; !there {
			d.remove(state.Spec, name, func() { delete(k.specs, name) })
		}
	}
	for p := range k.doubtful { // new with the save that failed, and forgotten since
		_, there := m.Proxies[p.key]
		_, proxy := k.proxies[p.key]
		_, sp := k.specs[p.key]
		if !there && (p.kind == state.Proxy && !proxy || p.kind == state.Spec && !sp) {
			d.remove(p.kind, p.key, func() {})
		}
	}
	return d
}

// diffSpec writes a spec unless it says what the one on disk says.
func (k *keeper) diffSpec(d *delta, name string, p plan.Proxy, file func(string) string) {
	text, err := spec.Encode(*p.Last)
	if err != nil { // no decoder gives such a spec
		d.skipped = append(d.skipped, err)
		k.specs[name] = keptSpec{spec: p.Last}
		return
	}
	entry := storedSpec{Origin: p.Origin, File: file(name), Spec: text}
	now := keptSpec{p.Last, entry.sum()}
	if k.specs[name].sum == now.sum && !k.doubtful[place{state.Spec, name}] {
		k.specs[name] = now
		return
	}
	d.put(state.Spec, name, entry, func() { k.specs[name] = now })
}

func (s storedSpec) sum() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %s", s.Origin, s.File, s.Spec))
}

// save asks for what is not on disk to be written, one save at a time.
func (c *Core) save(now time.Time) []Effect {
	k := &c.keeper
	if k.commit != nil || now.Before(k.next) {
		return nil
	}
	d := k.diff(c.memory, func(name string) string { return c.merged.Proxies[name].File })
	if len(d.changes) == 0 {
		k.next, k.failures = time.Time{}, 0
		return c.answerAll()
	}
	k.asked++
	k.tried = nil
	for _, ch := range d.changes {
		k.tried = append(k.tried, place{ch.Kind, ch.Key})
	}
	k.commit = func() {
		for _, f := range d.commits {
			f()
		}
	}
	for i := range c.answers {
		if c.answers[i].save == 0 {
			c.answers[i].save = k.asked
		}
	}
	return []Effect{SaveState{Changes: d.changes, Skipped: d.skipped}}
}

// saveRetry bounds the wait after a save that failed.
const (
	saveRetryMin = time.Second
	saveRetryMax = time.Minute
)

// stateSaved takes a save's end. Whoever gave an order that it was to keep
// hears of it.
func (c *Core) stateSaved(now time.Time, ev StateSaved) []Effect {
	k := &c.keeper
	commit := k.commit
	k.commit = nil
	if ev.Err != nil {
		k.next = now.Add(min(saveRetryMin<<min(k.failures, 10), saveRetryMax))
		k.failures++
		for _, p := range k.tried {
			k.doubtful[p] = true
		}
		return c.answer(fmt.Errorf("it counts until the agent ends, but could not be written down: %w", ev.Err))
	}
	k.next, k.failures = time.Time{}, 0
	if commit != nil {
		commit()
	}
	for _, p := range k.tried {
		delete(k.doubtful, p)
	}
	c.memory.Tombstones = maps.Clone(c.memory.Tombstones)
	for uuid, t := range c.memory.Tombstones {
		if _, kept := k.tombs[uuid]; kept {
			t.Saved = true
			c.memory.Tombstones[uuid] = t
		}
	}
	out := c.answer(nil)
	if id := k.host.HostID; id != "" && id != c.set.Policy.HostID && !c.set.Policy.HostIDGiven {
		out = append(out, TakeOnHostID{})
	}
	return out
}

// answer is what is said to who gave an order, once the save with that number
// has ended; 0 until it is asked for.
type answer struct {
	Answered
	save uint64
}

// obey takes an operator's order.
func (c *Core) obey(now time.Time, ev Ordered) []Effect {
	c.generations = plan.Generations(c.memory, c.set.Policy.HostID, c.obs, c.names)
	m, text, err := plan.Obey(c.input(now), c.last, ev.Order)
	if err != nil {
		return []Effect{Answered{ID: ev.ID, Err: err}}
	}
	c.memory = m
	c.answers = append(c.answers, answer{Answered: Answered{ID: ev.ID, Text: text}})
	return nil
}

// answer speaks to those whose order is in the save that has ended.
func (c *Core) answer(err error) []Effect {
	var out []Effect
	var later []answer
	for _, a := range c.answers {
		if a.save == 0 { // it is in no save yet
			later = append(later, a)
			continue
		}
		a.Err = err
		out = append(out, a.Answered)
	}
	c.answers = later
	return out
}

// answerAll speaks to all who wait: everything is on disk.
func (c *Core) answerAll() []Effect {
	var out []Effect
	for _, a := range c.answers {
		out = append(out, a.Answered)
	}
	c.answers = nil
	return out
}
