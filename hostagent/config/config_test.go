package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

var comparePrefixes = cmpopts.EquateComparable(netip.Prefix{})

func TestLoadFull(t *testing.T) {
	t.Parallel()
	const path = "testdata/full.toml"
	want := config.Config{
		Path: path,
		Host: config.Host{ID: "host-7", Name: "kvm7.example.test"},
		Libvirt: config.Libvirt{
			URI: "test:///default", Acceleration: config.TCG,
			CallTimeout: time.Minute, Keepalive: 10 * time.Second, AgentTimeout: 3 * time.Second,
		},
		Specs: config.Specs{Dir: "/srv/proxies.d"},
		Manifest: config.Manifest{
			URL: "http://fleet.example:8080/hosts/{host}.json", Interval: 10 * time.Second, InsecureHTTP: true,
			Policy: spec.Remote{
				Images: []string{}, MachineTypes: []string{"small"},
				Networks: []spec.Network{{Network: "egress"}, {Bridge: "br1"}, {Direct: "eth1"}}, VLAN: true,
				Addresses:  []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
				ProbeHosts: []string{"connectivity.example"}, Credentials: map[string]string{"probe": "/etc/egress-hostagent/probe.credentials"},
				SkipCleanup: true, MaxProxies: 20, MaxMemory: 64 * spec.GiB, MaxDisk: spec.TiB,
			},
		},
		TLS:     config.TLS{CA: "/srv/tls/ca.pem", Cert: "/srv/tls/host.pem", Key: "/srv/tls/host.key"},
		Tree:    "/srv/images/egress",
		State:   "/srv/state",
		Control: config.Control{Socket: "/run/egress/control.sock", Admins: []string{"deploy", "1000"}},
		Catalog: spec.Catalog{
			Images: map[string]spec.Image{
				"debian-13": {Key: "debian-13", Source: "/srv/images/debian-13.qcow2", SHA256: strings.Repeat("13", 32), Format: "qcow2"},
				"debian.12": {Key: "debian.12", Source: "https://images.example/debian-12.raw", SHA256: strings.Repeat("12", 32), Format: "raw"},
			},
			MachineTypes: map[string]spec.MachineType{
				"small": {CPUs: 1, Memory: 512 * spec.MiB},
				"large": {CPUs: 8, Memory: 16 * spec.GiB},
			},
			Credentials: map[string]string{"probe": "/etc/egress-hostagent/probe.credentials"},
			Defaults:    spec.Defaults{Image: "debian-13", MachineType: "small", Disk: 10 * spec.GiB, Port: 8080, Network: spec.Network{Bridge: "br0"}},
		},
		Policy: config.Policy{
			AllowedCIDRs:  []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
			DeletionDelay: time.Minute, ShutdownGrace: 90 * time.Second, MaxUnavailable: 3, RolloutWait: 20 * time.Minute,
		},
		Probe: config.Probe{Enabled: false, Interval: 10 * time.Second, Timeout: 500 * time.Millisecond},
		Limits: config.Limits{
			Actions: 4, Resync: 5 * time.Minute, DiskReserve: 2 * spec.GiB, MemoryReserve: spec.GiB,
			StartInterval: 250 * time.Millisecond, ImageGrace: 7 * 24 * time.Hour,
		},
	}
	got, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, comparePrefixes); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestEmptyFileIsDefault(t *testing.T) {
	t.Parallel()
	want := config.Default()
	want.Path = "c.toml"
	got, err := config.Decode("c.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, comparePrefixes); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// TestDefaultsPassDecode: what Default gives is what the decoder would take.
func TestDefaultsPassDecode(t *testing.T) {
	t.Parallel()
	c := config.Default()
	text := fmt.Sprintf(`
libvirt = {uri = %q, acceleration = %q}
specs = {dir = %q}
tree = {root = %q}
state = {dir = %q}
control = {socket = %q, admins = []}
policy = {deletion_delay = %q, shutdown_grace = %q, max_unavailable = %d, rollout_wait = %q}
probe = {enabled = %v, interval = %q, timeout = %q}
limits = {actions = %d, resync = %q, disk_reserve = %q, memory_reserve = %q, start_interval = %q, image_grace = %q}
`, c.Libvirt.URI, c.Libvirt.Acceleration, c.Specs.Dir, c.Tree, c.State, c.Control.Socket, c.Policy.DeletionDelay.String(), c.Policy.ShutdownGrace.String(),
		c.Policy.MaxUnavailable, c.Policy.RolloutWait.String(), c.Probe.Enabled, c.Probe.Interval.String(), c.Probe.Timeout.String(),
		c.Limits.Actions, c.Limits.Resync.String(), c.Limits.DiskReserve.String(), c.Limits.MemoryReserve.String(),
		c.Limits.StartInterval.String(), c.Limits.ImageGrace.String())
	got, err := config.Decode("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got, comparePrefixes); diff != "" {
		t.Errorf("config (-default +decoded):\n%s", diff)
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := config.Load(filepath.Join(dir, "absent.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v; want fs.ErrNotExist", err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{
		write("broken.toml", []byte("x")), write("unknown.toml", []byte("[manifests]\n")), write("big.toml", make([]byte, 2<<20)),
	} {
		_, err := config.Load(path)
		if _, ok := errors.AsType[spec.Problems](err); !ok || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v; want spec.Problems", filepath.Base(path), err)
		}
	}
	if _, err := config.Load(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

func TestShortIntervalShortensTheDefaultTimeout(t *testing.T) {
	t.Parallel()
	c, err := config.Decode("c.toml", []byte("[probe]\ninterval = '2s'"))
	if err != nil || c.Probe.Timeout != 2*time.Second {
		t.Errorf("timeout %v, error %v; want 2s", c.Probe.Timeout, err)
	}
}
