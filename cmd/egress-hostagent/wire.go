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

// identity is who this host is.
func identity(cfg config.Config) (id, name string, err error) {
	if id = cfg.Host.ID; id == "" {
		if id, err = hostagent.HostID(machineIDFile); err != nil {
			return "", "", &codedError{exitConfig, err}
		}
	}
	if name = cfg.Host.Name; name == "" {
		if name, err = os.Hostname(); err != nil {
			return "", "", fmt.Errorf("host name: %w", err)
		}
	}
	return id, name, nil
}

// decoder decodes specs with what the configuration offers.
func decoder(cfg config.Config) source.Decoder {
	return func(name, file string, data []byte, open func(string) ([]byte, error)) (spec.Spec, error) {
		return spec.DecodeTOML(name, file, data, cfg.Catalog, open)
	}
}

// wired is the agent's parts and those of them that commands use themselves.
type wired struct {
	parts hostagent.Parts
	conn  *virt.Conn
	dir   *source.Dir
	tree  *image.Tree
}

// addressStale is three times the slowest pace of the address reads.
const addressStale = 3 * time.Minute

// wire builds the agent's parts. It opens nothing.
func wire(cfg config.Config, log *slog.Logger) (wired, error) {
	id, name, err := identity(cfg)
	if err != nil {
		return wired{}, err
	}
	w := wired{
		conn: virt.New(virt.Options{
			URI: cfg.Libvirt.URI, Namespace: domxml.Namespace, Log: log,
			CallTimeout: cfg.Libvirt.CallTimeout, Keepalive: cfg.Libvirt.Keepalive, AgentTimeout: cfg.Libvirt.AgentTimeout,
		}),
		tree: image.New(cfg.Tree, id),
		dir:  source.NewDir(cfg.Specs.Dir, decoder(cfg), source.WithLogger(log)),
	}
	w.parts = hostagent.Parts{
		Settings: hostagent.Settings{
			Host: name, Version: version, URI: cfg.Libvirt.URI, Images: cfg.Catalog.Images,
			Resync: cfg.Limits.Resync, ProbeInterval: cfg.Probe.Interval,
			Origins: []string{source.OriginDir},
			Policy:  policy(cfg, id),
		},
		Hypervisor: w.conn,
		Tree:       w.tree,
		Executor: &apply.Executor{
			Hypervisor: w.conn, Tree: w.tree, HostID: id,
			Acceleration: domxml.Acceleration(cfg.Libvirt.Acceleration),
			NewInstance:  newInstance, Now: time.Now,
		},
		Sources: []hostagent.Source{w.dir},
		Prober:  probe.Prober{Timeout: cfg.Probe.Timeout},
		Host:    hostNetwork{},
		Actions: cfg.Limits.Actions,
		Now:     time.Now,
		Log:     log,
	}
	return w, nil
}

// quietly wires parts for a command that looks and prints, and logs nothing.
func quietly(o *options) (config.Config, wired, error) {
	cfg, err := loadConfig(o)
	if err != nil {
		return cfg, wired{}, err
	}
	w, err := wire(cfg, slog.New(slog.DiscardHandler))
	return cfg, w, err
}

func policy(cfg config.Config, hostID string) plan.Policy {
	return plan.Policy{
		HostID:         hostID,
		DeletionDelay:  cfg.Policy.DeletionDelay,
		ShutdownGrace:  cfg.Policy.ShutdownGrace,
		ShutdownRepeat: min(10*time.Second, cfg.Policy.ShutdownGrace/3),
		AllowedCIDRs:   cfg.Policy.AllowedCIDRs,
		Probe:          cfg.Probe.Enabled,
		ProbeStale:     3 * (cfg.Probe.Interval + cfg.Probe.Timeout),
		AddressStale:   addressStale,
		DiskReserve:    cfg.Limits.DiskReserve,
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
