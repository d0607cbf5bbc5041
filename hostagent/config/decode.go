package config

import (
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Decode reads a configuration from TOML; path is the document's name. The
// document is decoded over the defaults and then validated. An error is
// spec.Problems: everything wrong with the document at once.
func Decode(path string, data []byte) (Config, error) {
	d, err := doc.ParseTOML(path, data)
	if err != nil {
		return Config{}, err
	}
	c := Default()
	c.Path = path
	c.decode(d.Root())
	c.validate(d.Root())
	if err := d.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// decode reads every key there may be; values that are absent or wrong leave
// the default.
func (c *Config) decode(root *doc.Table) {
	t := root.Table("host")
	set(&c.Host.ID)(doc.Text(t, "id", name(spec.KindHostID)))
	set(&c.Host.Name)(doc.Text(t, "name", name(spec.KindHost)))

	t = root.Table("libvirt")
	set(&c.Libvirt.URI)(doc.Text(t, "uri", libvirtURI))
	set(&c.Libvirt.Acceleration)(doc.Text(t, "acceleration", oneOf(KVM, TCG)))
	set(&c.Libvirt.CallTimeout)(t.Duration("call_timeout", time.Second, 10*time.Minute))
	set(&c.Libvirt.Keepalive)(doc.Text(t, "keepalive", wholeSeconds))
	set(&c.Libvirt.AgentTimeout)(doc.Text(t, "agent_timeout", wholeSeconds))

	set(&c.Specs.Dir)(doc.Text(root.Table("specs"), "dir", directory))
	set(&c.Tree)(doc.Text(root.Table("tree"), "root", directory))
	set(&c.State)(doc.Text(root.Table("state"), "dir", directory))
	t = root.Table("control")
	set(&c.Control.Socket)(doc.Text(t, "socket", socket))
	c.Control.Admins = doc.Strings(t, "admins", maxAdmins, admin)

	c.decodeCatalog(root)
	c.decodeManifest(root)

	t = root.Table("policy")
	c.Policy.AllowedCIDRs = doc.Strings(t, "allowed_cidrs", maxCIDRs, cidr)
	set(&c.Policy.DeletionDelay)(t.Duration("deletion_delay", time.Second, 24*time.Hour))
	set(&c.Policy.ShutdownGrace)(t.Duration("shutdown_grace", time.Second, time.Hour))
	unavailable, ok := t.Int("max_unavailable", 1, maxUnavailable)
	set(&c.Policy.MaxUnavailable)(int(unavailable), ok)
	set(&c.Policy.RolloutWait)(t.Duration("rollout_wait", 10*time.Second, 24*time.Hour))

	t = root.Table("probe")
	set(&c.Probe.Enabled)(t.Bool("enabled"))
	set(&c.Probe.Interval)(t.Duration("interval", time.Second, time.Hour))
	c.Probe.Timeout = min(c.Probe.Timeout, c.Probe.Interval)
	set(&c.Probe.Timeout)(t.Duration("timeout", 100*time.Millisecond, time.Minute))

	c.decodeLimits(root.Table("limits"))
}

func (c *Config) decodeLimits(t *doc.Table) {
	actions, ok := t.Int("actions", 1, maxActions)
	set(&c.Limits.Actions)(int(actions), ok)
	set(&c.Limits.Resync)(t.Duration("resync", time.Second, time.Hour))
	set(&c.Limits.DiskReserve)(doc.Text(t, "disk_reserve", reserve(minDiskReserve)))
	set(&c.Limits.MemoryReserve)(doc.Text(t, "memory_reserve", reserve(0)))
	set(&c.Limits.StartInterval)(t.Duration("start_interval", 0, time.Minute))
	set(&c.Limits.ImageGrace)(t.Duration("image_grace", time.Minute, maxGrace))
}

// Bounds of lists and numbers.
const (
	maxCIDRs       = 64
	maxAdmins      = 64
	maxActions     = 64
	maxUnavailable = 1000
	maxGrace       = 365 * 24 * time.Hour
)

// set gives a function that stores what an accessor returns, if it is there.
func set[T any](field *T) func(T, bool) {
	return func(v T, ok bool) {
		if ok {
			*field = v
		}
	}
}

// validate checks how the values fit together.
func (c *Config) validate(root *doc.Table) {
	if c.Probe.Timeout > c.Probe.Interval {
		root.Table("probe").Fail("timeout", "%s is longer than the interval, %s; probes would pile up", c.Probe.Timeout, c.Probe.Interval)
	}
	// libvirt waits for the agent to get in step, and then for its answer.
	if least := 2 * c.Libvirt.AgentTimeout; c.Libvirt.CallTimeout <= least {
		root.Table("libvirt").Fail("call_timeout", "%s is not longer than %s, twice the agent_timeout; calls to silent guest agents would be given up before libvirt gives them up, and keep their slots; raise call_timeout, or lower agent_timeout", c.Libvirt.CallTimeout, least)
	}
	c.validatePlaces(root)
	c.validateDefaults(root)
	c.validateManifest(root)
}

// validatePlaces keeps the agent's directories apart: each has files that
// another's owner would take for its own.
func (c *Config) validatePlaces(root *doc.Table) {
	places := []struct{ table, key, path string }{
		{"specs", "dir", c.Specs.Dir}, {"tree", "root", c.Tree}, {"state", "dir", c.State},
	}
	for i, p := range places {
		for _, other := range places[:i] {
			if p.path != other.path {
				continue
			}
			if !root.Has(p.table) {
				p, other = other, p
			}
			root.Table(p.table).Fail(p.key, "is the directory of [%s] too; each needs its own", other.table)
		}
	}
}

// validateDefaults checks that what specs get without asking is there.
func (c *Config) validateDefaults(root *doc.Table) {
	t, def := root.Table("defaults"), c.Catalog.Defaults
	if def.Image != "" && !root.Table("images").Has(def.Image) {
		t.Fail("image", "there is no [images.%s]; add it, or name another", def.Image)
	}
	if def.MachineType != "" && !root.Table("machine_types").Has(def.MachineType) {
		t.Fail("machine_type", "there is no [machine_types.%s]; add it, or name another", def.MachineType)
	}
}
