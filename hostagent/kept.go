package hostagent

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
)

// Kept is what an earlier run of the agent left in the state directory.
type Kept struct {
	Memory plan.Memory
	// Specs are the last good specs, by origin and name: what stands while a
	// source can not be read.
	Specs map[string]map[string]source.Entry
	// Manifest are the manifest source's own entries.
	Manifest []state.Entry

	sums map[string][32]byte     // of the entries that Specs were read from, by name
	lost map[state.Kind][]string // keys of entries that are not on disk as they are here
}

// Restore reads what the state directory holds. An entry that can not be used
// is handed to reject, and what it said is taken to be what forbids most: a
// tree that was known, a VM that was abandoned.
func Restore(content state.Content, now time.Time, reject func(state.Entry, error)) Kept {
	k := Kept{
		Memory: plan.Memory{Proxies: map[string]plan.Proxy{}, Tombstones: map[string]plan.Tombstone{}},
		Specs:  map[string]map[string]source.Entry{}, sums: map[string][32]byte{},
	}
	lost := map[state.Kind][]string{}
	k.lost = lost
	for kind, keys := range content.Lost {
		lost[kind] = append(lost[kind], keys...)
	}
	for _, e := range content.Entries {
		if err := k.read(e, now); err != nil {
			reject(e, err)
			lost[e.Kind] = append(lost[e.Kind], e.Key)
		}
	}
	if len(lost[state.Host]) > 0 {
		k.Memory.TreeKnown = true
	}
	for _, uuid := range lost[state.Tombstone] {
		k.Memory.Tombstones[uuid] = plan.Tombstone{UUID: uuid, At: now, Why: "its entry in the state directory can not be read", Left: true}
	}
	k.Memory = k.Memory.Restored(now)
	for _, specs := range k.Specs { // a source in doubt must not list again what is on its way out
		maps.DeleteFunc(specs, func(name string, _ source.Entry) bool { return k.Memory.Proxies[name].Unlisted() })
	}
	return k
}

// living is the memory without that of VMs which were abandoned: it is forgotten
// together with the writing of the tombstone, and a crash may have come between.
func living(m plan.Memory, hostID string) plan.Memory {
	m.Proxies = maps.Clone(m.Proxies)
	for uuid, t := range m.Tombstones {
		genuine := uuid == domxml.DomainUUID(hostID, domxml.Identity(t.Name, t.Generation))
		if p, there := m.Proxies[t.Name]; there && genuine && p.Generation <= t.Generation {
			delete(m.Proxies, t.Name)
		}
	}
	return m
}

func (k *Kept) read(e state.Entry, now time.Time) error {
	switch e.Kind {
	case state.Host:
		return e.Decode(&k.Memory.KeptHost)
	case state.Tombstone:
		var t plan.Tombstone
		if err := e.Decode(&t); err != nil {
			return err
		}
		if t.UUID != e.Key || t.Name != "" && spec.CheckName(spec.KindProxy, t.Name) != nil || t.Generation < 0 {
			return errors.New("it contradicts its own name, or names no proxy")
		}
		t.Saved = true
		k.Memory.Tombstones[t.UUID] = t
	case state.Proxy:
		p := k.Memory.Proxies[e.Key]
		if err := e.Decode(&p.Kept); err != nil {
			return err
		}
		k.Memory.Proxies[e.Key] = p
	case state.Spec:
		return k.readSpec(e)
	case state.Manifest:
		k.Manifest = append(k.Manifest, e)
	}
	return nil
}

func (k *Kept) readSpec(e state.Entry) error {
	var s storedSpec
	if err := e.Decode(&s); err != nil {
		return err
	}
	sp, err := spec.DecodeStored(s.Spec)
	if err != nil {
		return err
	}
	if sp.Name != e.Key {
		return fmt.Errorf("it is the spec of %s", sp.Name)
	}
	if k.Specs[s.Origin] == nil {
		k.Specs[s.Origin] = map[string]source.Entry{}
	}
	k.Specs[s.Origin][sp.Name] = source.Entry{Name: sp.Name, File: s.File, Spec: &sp, Hash: sp.Hash(), Warnings: sp.Warnings()}
	k.sums[sp.Name] = s.sum()
	p := k.Memory.Proxies[sp.Name]
	p.Last = &sp
	if p.Origin == "" {
		p.Origin = s.Origin
	}
	k.Memory.Proxies[sp.Name] = p
	return nil
}
