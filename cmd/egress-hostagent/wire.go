package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/apply"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
	"github.com/egress-proxies/egress-hostagent/hostagent/probe"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/virt"
)

const (
	defaultConfig = "/etc/egress-hostagent/config.toml"
	machineIDFile = "/etc/machine-id"
)

// loadConfig reads the configuration. The default file may be missing: the
// defaults then hold; a file named on the command line must be there.
func loadConfig(o *options) (config.Config, error) {
	cfg, err := config.Load(o.config)
	if errors.Is(err, fs.ErrNotExist) && o.config == defaultConfig {
		fmt.Fprintf(os.Stderr, "egress-hostagent: there is no %s; defaults hold, which know no image\n", defaultConfig)
		return config.Default(), nil
	}
	if err != nil {
		return cfg, &codedError{exitConfig, err}
	}
	return cfg, nil
}

// identity is who this host is. Own is the id by its config or machine, ID the
// one that counts: the agent may have taken on that of its VMs.
type identity struct {
	ID, Own, Name string
	Configured    bool // the config sets the id
}

func whoAmI(cfg config.Config) (who identity, err error) {
	who.Own, who.Configured = cfg.Host.ID, cfg.Host.ID != ""
	if !who.Configured {
		if who.Own, err = hostagent.HostID(machineIDFile); err != nil {
			return who, &codedError{exitConfig, err}
		}
	}
	if who.Name = cfg.Host.Name; who.Name == "" {
		if who.Name, err = os.Hostname(); err != nil {
			return who, fmt.Errorf("host name: %w", err)
		}
	}
	who.ID = who.Own
	return who, nil
}

// takeOn makes the id count that an operator had the agent take on, unless the
// config says another.
func (who *identity) takeOn(kept hostagent.Kept) {
	if id := kept.Memory.HostID; id != "" && !who.Configured {
		who.ID = id
	}
}

// decoder decodes specs with what the configuration offers.
func decoder(cfg config.Config) source.Decoder {
	return func(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
		return spec.DecodeTOML(name, file, data, cfg.Catalog, open)
	}
}

// wired is the agent's parts and those of them that commands use themselves.
type wired struct {
	who   identity
	parts hostagent.Parts
	conn  *virt.Conn
	dir   *source.Dir
	pull  *pulled // nil: no manifest is configured
	tree  *image.Tree
}

// addressStale is three times the slowest pace of the address reads.
const addressStale = 3 * time.Minute

// wire builds the agent's parts, with what an earlier run kept and where it
// keeps more. It opens nothing.
func wire(cfg config.Config, who identity, kept hostagent.Kept, keep hostagent.State, log *slog.Logger) wired {
	who.takeOn(kept)
	id := who.ID
	w := wired{
		who: who,
		conn: virt.New(virt.Options{
			URI: cfg.Libvirt.URI, Namespace: domxml.Namespace, Log: log,
			CallTimeout: cfg.Libvirt.CallTimeout, Keepalive: cfg.Libvirt.Keepalive, AgentTimeout: cfg.Libvirt.AgentTimeout,
		}),
		tree: image.New(cfg.Tree, id, image.WithReserve(uint64(cfg.Limits.DiskReserve))),
		dir:  source.NewDir(cfg.Specs.Dir, decoder(cfg), source.WithLogger(log)),
	}
	t := tuning(cfg, who)
	w.parts = hostagent.Parts{
		Settings:   t.Settings,
		Kept:       kept,
		Hypervisor: w.conn,
		Tree:       w.tree,
		Executor: &apply.Executor{
			Hypervisor: w.conn, Tree: w.tree, HostID: id,
			Acceleration: domxml.Acceleration(cfg.Libvirt.Acceleration),
			NewInstance:  newInstance, Now: time.Now,
			Note: func(proxy, text string) { log.Info("note", "proxy", proxy, "text", text) },
		},
		Sources: []hostagent.Source{w.dir},
		State:   keep,
		Prober:  t.Prober,
		Host:    hostNetwork{},
		Actions: t.Actions,
		Now:     time.Now,
		Log:     log,
	}
	w.dir.Restore(kept.Specs[source.OriginDir], kept.Memory.SpecDir)
	if w.pull = pull(cfg, who, kept, keep, log); w.pull != nil {
		w.parts.Sources, w.parts.Manifest = append(w.parts.Sources, w.pull), w.pull
	}
	return w
}

// tuning is the part of the configuration that can change while the agent runs.
func tuning(cfg config.Config, who identity) hostagent.Tuning {
	return hostagent.Tuning{
		Settings: hostagent.Settings{
			Host: who.Name, Version: version, URI: cfg.Libvirt.URI, Images: cfg.Catalog.Images,
			Resync: cfg.Limits.Resync, ProbeInterval: cfg.Probe.Interval,
			Origins: origins(cfg),
			Policy:  policy(cfg, who),
		},
		Prober:  probe.Prober{Timeout: cfg.Probe.Timeout},
		Actions: cfg.Limits.Actions,
	}
}

// origins are the sources that the configuration has, the one that wins first.
func origins(cfg config.Config) []string {
	if cfg.Manifest.URL == "" {
		return []string{source.OriginDir}
	}
	return []string{source.OriginDir, source.OriginManifest}
}

// quietly wires parts for a command that looks and prints, and logs nothing.
func quietly(o *options) (config.Config, wired, error) {
	cfg, err := loadConfig(o)
	if err != nil {
		return cfg, wired{}, err
	}
	who, err := whoAmI(cfg)
	if err != nil {
		return cfg, wired{}, err
	}
	return cfg, wire(cfg, who, peek(cfg, who.Own), nil, slog.New(slog.DiscardHandler)), nil
}

// peek reads the agent's state as far as this user may. What can not be read
// counts as forbidding: a dry run then promises too little rather than too
// much.
func peek(cfg config.Config, hostID string) hostagent.Kept {
	content, err := state.Peek(cfg.State, hostID)
	kept := hostagent.Restore(content, time.Now(), func(state.Entry, error) {})
	if err != nil {
		kept.Memory.TreeKnown = true
	}
	return kept
}

func policy(cfg config.Config, who identity) plan.Policy {
	return plan.Policy{
		HostID:         who.ID,
		HostIDGiven:    who.Configured,
		DeletionDelay:  cfg.Policy.DeletionDelay,
		ShutdownGrace:  cfg.Policy.ShutdownGrace,
		ShutdownRepeat: min(10*time.Second, cfg.Policy.ShutdownGrace/3),
		AllowedCIDRs:   cfg.Policy.AllowedCIDRs,
		Probe:          cfg.Probe.Enabled,
		ProbeStale:     3 * (cfg.Probe.Interval + cfg.Probe.Timeout),
		AddressStale:   addressStale,
		DiskReserve:    cfg.Limits.DiskReserve,
		MemoryReserve:  cfg.Limits.MemoryReserve,
		MaxUnavailable: cfg.Policy.MaxUnavailable,
		RolloutWait:    cfg.Policy.RolloutWait,
		StartInterval:  cfg.Limits.StartInterval,
		ImageGrace:     cfg.Limits.ImageGrace,
	}
}

// newInstance makes an instance-id; 64 random bits do not meet twice.
func newInstance() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand does not fail on Linux
	}
	return "i-" + hex.EncodeToString(b[:])
}
