package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virt"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// crashHost is a host for agents that are killed: a directory of files, and
// libvirt's test driver, whose state is that of a connection of this process.
type crashHost struct {
	t     *testing.T
	dir   string // config.toml, specs, tree, state
	saved string // a copy of it
	conn  *virt.Conn
	doms  []savedDomain
	idle  *agent // a process whose agent has stopped

	images   map[string]string // sha256 by key
	old, new string            // instance-ids: from before, and of what was begun before a crash
	kept     map[string]string // remains before
	where    string            // the kill, for people
}

// savedDomain is one of the agent's at the moment of a copy.
type savedDomain struct {
	observe.RawDomain
	xml string
}

func newCrashHost(t *testing.T) *crashHost {
	t.Helper()
	top := t.TempDir()
	h := &crashHost{t: t, dir: filepath.Join(top, "host"), saved: filepath.Join(top, "saved")}
	for _, d := range []string{"", "specs", "tree"} {
		h.must(os.Mkdir(filepath.Join(h.dir, d), 0o755))
	}
	h.connect()
	t.Cleanup(func() {
		if h.idle != nil {
			h.idle.ended()
		}
	})
	return h
}

func (h *crashHost) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// connect begins with a libvirt in which only others have domains.
func (h *crashHost) connect() {
	h.t.Helper()
	cfg := config.Default()
	cfg.Libvirt.URI = virttest.NodeURI(h.t, virttest.ForeignDomains()...)
	h.conn = wire(cfg, testIdentity, hostagent.Kept{}, nil, slog.New(slog.DiscardHandler)).conn
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.conn.Run(ctx) }()
	h.t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-h.conn.Events(): // it is up
	case <-time.After(patience):
		h.t.Fatal("no link to libvirt's test driver")
	}
}

// save keeps everything as it is now.
func (h *crashHost) save() {
	h.t.Helper()
	h.copy(h.dir, h.saved)
	h.doms = nil
	for _, d := range h.ours() {
		xml, err := h.conn.DomainXML(h.t.Context(), d.UUID, true)
		h.must(err)
		h.doms = append(h.doms, savedDomain{d, xml})
	}
}

// restore makes everything what it was.
func (h *crashHost) restore() {
	h.t.Helper()
	h.copy(h.saved, h.dir)
	for _, d := range h.ours() {
		h.must(h.conn.Destroy(h.t.Context(), d.UUID))
		h.must(h.conn.Undefine(h.t.Context(), d.UUID))
	}
	for _, d := range h.doms {
		h.must(h.conn.Define(h.t.Context(), d.xml, false))
		h.must(h.conn.SetAutostart(h.t.Context(), d.UUID, d.Autostart))
		if d.Power == observe.PowerRunning {
			h.must(h.conn.Start(h.t.Context(), d.UUID))
		}
	}
}

// copy replaces a directory by a copy of another, modes and all.
func (h *crashHost) copy(from, to string) {
	h.t.Helper()
	h.must(os.RemoveAll(to))
	h.must(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		copied := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return errors.Join(os.Mkdir(copied, 0o700), os.Chmod(copied, fi.Mode()))
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(copied, data, 0o600), os.Chmod(copied, fi.Mode()))
	}))
}

// ours are the domains that others did not have before.
func (h *crashHost) ours() []observe.RawDomain {
	h.t.Helper()
	ds, err := h.conn.ListDomains(h.t.Context())
	h.must(err)
	return slices.DeleteFunc(ds, func(d observe.RawDomain) bool {
		return slices.ContainsFunc(virttest.ForeignDomains(), func(f virttest.Foreign) bool { return f.UUID == d.UUID })
	})
}

// theirs is all that can be seen of the domains of others.
func (h *crashHost) theirs() string {
	h.t.Helper()
	var b strings.Builder
	for _, f := range virttest.ForeignDomains() {
		d, err := h.conn.LookupDomain(h.t.Context(), f.UUID)
		h.must(err)
		fmt.Fprintf(&b, "%+v\n", d)
		for _, inactive := range []bool{true, false} {
			xml, err := h.conn.DomainXML(h.t.Context(), f.UUID, inactive)
			h.must(err)
			b.WriteString(xml)
		}
	}
	return b.String()
}

// files lists what is beneath a directory, but for directories. What goes
// while it looks is left out.
func (h *crashHost) files(sub string) []string {
	h.t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(h.dir, sub), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(filepath.Join(h.dir, sub), path)
			all = append(all, rel)
		}
		return err
	})
	h.must(err)
	return all
}
