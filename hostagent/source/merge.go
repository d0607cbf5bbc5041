package source

// Proxy is a merged entry with the source it came from.
type Proxy struct {
	Entry
	Origin string
}

// Merged is the desired state of all sources together.
type Merged struct {
	Sources []Snapshot       // in order of precedence
	Proxies map[string]Proxy // by name; the first source that lists a name wins
}

// Merge lays snapshots over each other; earlier ones win.
func Merge(snaps ...Snapshot) Merged {
	m := Merged{Sources: snaps, Proxies: map[string]Proxy{}}
	for _, s := range snaps {
		for name, e := range s.Entries {
			if _, shadowed := m.Proxies[name]; !shadowed {
				m.Proxies[name] = Proxy{Entry: e, Origin: s.Origin}
			}
		}
	}
	return m
}

// Source gives the snapshot of an origin; ok is false when no such source is
// configured.
func (m Merged) Source(origin string) (s Snapshot, ok bool) {
	for _, s := range m.Sources {
		if s.Origin == origin {
			return s, true
		}
	}
	return Snapshot{}, false
}

// AllSeen tells whether every configured source was read completely once.
func (m Merged) AllSeen() bool {
	for _, s := range m.Sources {
		if s.Seq == 0 {
			return false
		}
	}
	return true
}
