package hostagent

import (
	"context"
	"errors"
	"slices"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// Collect removes what neither a record, nor an overlay, nor refer needs.
func (m *memTree) Collect(_ context.Context, bases []string, strays []observe.Incarnation, refer func(string) (bool, error)) (removed []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(); err != nil {
		return nil, err
	}
	for _, s := range strays {
		gone, strayErr := m.collectStray(s, refer)
		removed, err = append(removed, gone...), errors.Join(err, strayErr)
	}
	for _, sha := range bases {
		path := m.bases[sha].Path
		used, baseErr := refer(path)
		if path == "" || used || baseErr != nil || m.needed(sha) {
			err = errors.Join(err, baseErr)
			continue
		}
		if baseErr := m.may(treeChange{what: "remove base", sha256: sha}); baseErr != nil {
			err = errors.Join(err, baseErr)
			continue
		}
		delete(m.bases, sha)
		removed = append(removed, path)
	}
	return removed, err
}

func (m *memTree) collectStray(s observe.Incarnation, refer func(string) (bool, error)) (removed []string, err error) {
	i := slices.IndexFunc(m.incs[s.Name], func(i observe.Incarnation) bool { return i.Instance == s.Instance })
	if i < 0 || m.incs[s.Name][i].Record != nil || m.incs[s.Name][i].Problem != "" {
		return nil, nil
	}
	p := m.Paths(s.Name, s.Instance)
	for _, path := range []string{p.Overlay, p.Seed} {
		if used, err := refer(path); used || err != nil {
			return nil, err
		}
	}
	return []string{p.Overlay, p.Seed}, m.removeIncarnation(s.Name, s.Instance)
}

// needed tells whether a record names a base image, or an overlay stands on it.
func (m *memTree) needed(sha256 string) bool {
	for _, incs := range m.incs {
		for _, i := range incs {
			if i.Record != nil && i.Record.Base == sha256 || i.Overlay && m.stands[i.Name+"."+i.Instance] == sha256 {
				return true
			}
		}
	}
	return false
}

func (m *memTree) StandsOn(_ context.Context, file, _ string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{file}, m.chains[file]...), nil
}
