package main

import (
	"fmt"
	"testing"
)

// TestDaemon: which daemon serves, and what that means for hooks and logs.
func TestDaemon(t *testing.T) {
	t.Parallel()
	const (
		legacy, direct, network = "run/libvirt/libvirt-sock", "run/libvirt/virtqemud-sock", "run/libvirt/virtnetworkd-sock"
		systemd                 = "run/systemd/system/.keep"
		wants                   = "etc/systemd/system/sockets.target.wants/"
	)
	runs := func(name string, pid int) []string {
		return []string{fmt.Sprintf("run/%s.pid=%d\n", name, pid), fmt.Sprintf("proc/%d/comm=%s\n", pid, name)}
	}
	with := func(more []string, files ...string) hostFS { return host(append(files, more...)...) }
	for _, c := range []struct {
		name   string
		uri    string // "" is the default
		host   hostFS
		level  level
		pieces []string
	}{
		{"monolithic", "", with(runs("libvirtd", 7), legacy, systemd, wants+"libvirtd.socket"), ok, []string{"libvirtd, the monolithic", "libvirtd.socket is enabled", "systemctl restart libvirtd", "journalctl -u libvirtd,"}},
		{"monolithic, no activation", "", with(runs("libvirtd", 7), legacy, systemd), ok, []string{"libvirtd.socket is not enabled"}},
		{"without systemd", "", with(runs("libvirtd", 7), legacy), ok, []string{"systemd does not run here"}},
		{"modular", "", with(runs("virtqemud", 8), direct, network, systemd, wants+"virtqemud.socket"), ok, []string{"virtqemud, of the modular", "virtqemud.socket is enabled", "systemctl restart virtqemud", "journalctl -u virtqemud -u virtnetworkd", "!virtproxyd"}},
		{"modular, networks missing", "", host(direct), warn, []string{"virtnetworkd-sock is missing", "enable --now virtnetworkd.socket"}},
		{"modular, with its proxy", "", host(direct, network, legacy, systemd, wants+"virtproxyd.socket"), ok, []string{"virtproxyd's, which passes calls on"}},
		{"modular, its proxy runs", "", with(runs("virtproxyd", 9), direct, network, legacy), ok, []string{"virtproxyd's"}},
		{"by way of the proxy", "qemu:///system?mode=legacy", with(runs("virtproxyd", 9), direct, network, legacy), warn, []string{"virtproxyd serves", "take mode=legacy"}},
		{"a proxy to nothing", "", with(runs("virtproxyd", 9), legacy), warn, []string{"virtqemud-sock is missing"}},
		{"both", "", with(runs("libvirtd", 7), legacy, direct, network), warn, []string{"two daemons may manage", "virtqemud serves qemu:///system, whose socket libvirt's client takes first", "disable --now libvirtd.socket", "!virtproxyd"}},
		{"both, mode=legacy", "qemu:///system?mode=legacy", with(runs("libvirtd", 7), legacy, direct), warn, []string{"libvirtd serves", "because the URI says so"}},
		{"both, unknown", "", host(legacy, direct, network), warn, []string{"may also be virtproxyd's", "systemctl status libvirtd.socket virtproxyd.socket"}},
		{"both units enabled", "", host(legacy, direct, systemd, wants+"libvirtd.socket", wants+"virtproxyd.socket"), warn, []string{"may also be"}},
		{"a process that is another's", "", host(legacy, direct, network, "run/libvirtd.pid=7", "proc/7/comm=bash"), warn, []string{"may also be"}},
		{"none", "", host("run/libvirt/qemu/x"), warn, []string{"neither libvirt-sock nor virtqemud-sock", "systemctl enable --now libvirtd.socket"}},
		{"no directory", "", host(), warn, []string{"neither"}},
		{"unreadable", "", host(legacy).deny("run/libvirt"), warn, []string{"could not be read: permission denied"}},
		{"mode=direct without virtqemud", "qemu:///system?mode=direct", host(legacy), warn, []string{"asks for virtqemud-sock", "there is libvirt-sock"}},
		{"the socket by name", "qemu+unix:///system?socket=/var/run/libvirt/virtqemud-sock", host(direct, network), ok, []string{"virtqemud, of the modular"}},
		{"a socket elsewhere", "qemu+unix:///system?socket=/tmp/x/libvirt-sock", host(), ok, []string{"/tmp/x/libvirt-sock"}},
		{"a session", "qemu:///session", host(), ok, []string{"not looked for"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			uri := c.uri
			if uri == "" {
				uri = "qemu:///system"
			}
			compare(t, []finding{readDaemons(c.host, uri).finding()}, []want{{"libvirt daemon", c.level, c.pieces}})
		})
	}
}
