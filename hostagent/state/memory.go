package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// Memory is a Store without a directory, for the tests of who uses one. It is
// safe for concurrent use.
type Memory struct {
	// Fail, unless nil, is called before each change; its error fails that.
	// Set it before the Memory is used.
	Fail func(Change) error

	mu      sync.Mutex
	entries map[place]json.RawMessage
	lost    map[place]string
}

// NewMemory makes an empty Memory.
func NewMemory() *Memory {
	return &Memory{entries: map[place]json.RawMessage{}, lost: map[place]string{}}
}

// Save does what Store.Save does.
func (m *Memory) Save(changes ...Change) error {
	for _, c := range changes {
		if err := m.save(c); err != nil {
			return fmt.Errorf("save state entry %q: %w", c.place(), err)
		}
	}
	return nil
}

func (m *Memory) save(c Change) error {
	if m.Fail != nil {
		if err := m.Fail(c); err != nil {
			return err
		}
	}
	if err := c.check(); err != nil {
		return err
	}
	var body bytes.Buffer
	if !c.Gone {
		if err := json.Compact(&body, c.Body); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lost, c.place())
	delete(m.entries, c.place())
	if !c.Gone {
		m.entries[c.place()] = body.Bytes()
	}
	return nil
}

// Reject does what Store.Reject does.
func (m *Memory) Reject(e Entry, why error) (problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	problem = fmt.Sprintf("state entry %q is not used: %v", e.place(), why)
	_, there := m.entries[e.place()]
	_, lost := m.lost[e.place()]
	if !there && !lost {
		return problem + "; there is none"
	}
	delete(m.entries, e.place())
	m.lost[e.place()] = problem
	return problem
}

// Content is what Open would find.
func (m *Memory) Content() Content {
	m.mu.Lock()
	defer m.mu.Unlock()
	var c Content
	for p, body := range m.entries {
		c.Entries = append(c.Entries, Entry{p.kind, p.key, bytes.Clone(body)})
	}
	var lost []place
	for p, problem := range m.lost {
		lost = append(lost, p)
		c.Problems = append(c.Problems, problem)
	}
	slices.Sort(c.Problems)
	c.finish(lost)
	return c
}
