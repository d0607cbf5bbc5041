package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Sockets of libvirt's daemons in /run/libvirt. The first is libvirtd's, or
// that of virtproxyd, which only passes calls on to the modular daemons.
const (
	libvirtSock      = "libvirt-sock"
	virtqemudSock    = "virtqemud-sock"
	virtnetworkdSock = "virtnetworkd-sock"
)

// daemons is what was found of libvirt's daemons.
type daemons struct {
	uri     string
	sockets []string // names in /run/libvirt
	running []string // daemons whose process lives
	systemd bool     // whether it runs this host
	enabled []string // socket units that it listens for since boot
	problem string   // why /run/libvirt could not be read
}

// readDaemons looks at the host's files beneath root. It opens no socket: that
// would start a daemon that systemd holds one for.
func readDaemons(root fs.FS, uri string) daemons {
	d := daemons{uri: uri}
	d.sockets, d.problem = entries(root, "run/libvirt")
	if _, err := fs.Stat(root, "run/systemd/system"); err == nil { // as sd_booted(3) does
		d.systemd = true
		d.enabled, _ = entries(root, "etc/systemd/system/sockets.target.wants")
	}
	for _, name := range []string{"libvirtd", "virtproxyd", "virtqemud", "virtnetworkd"} {
		pid := readFile(root, "run/"+name+".pid").text
		if pid != "" && fs.ValidPath(pid) && readFile(root, path.Join("proc", pid, "comm")).text == name {
			d.running = append(d.running, name)
		}
	}
	return d
}

func (d daemons) has(socket string) bool { return slices.Contains(d.sockets, socket) }

// behind names the daemon behind libvirt-sock: libvirtd, virtproxyd, or "" when
// neither's process nor socket unit tells.
func (d daemons) behind() string {
	for _, name := range []string{"libvirtd", "virtproxyd"} {
		if slices.Contains(d.running, name) {
			return name
		}
	}
	mono, proxy := slices.Contains(d.enabled, "libvirtd.socket"), slices.Contains(d.enabled, "virtproxyd.socket")
	switch {
	case mono && !proxy:
		return "libvirtd"
	case proxy && !mono:
		return "virtproxyd"
	}
	return ""
}

// chosen gives the socket that libvirt's client takes for the URI, and whether
// the URI says so. Left to itself, which is mode "auto", the client takes
// virtqemud-sock when it exists, else libvirt-sock (libvirt's documentation of
// connection URIs, "mode parameter", and its remote_sockets.c).
func (d daemons) chosen(u *url.URL) (socket string, said bool) {
	q := u.Query()
	if s := q.Get("socket"); s != "" {
		if dir := path.Dir(s); dir == "/run/libvirt" || dir == "/var/run/libvirt" {
			return path.Base(s), true
		}
		return s, true
	}
	switch mode := q.Get("mode"); {
	case mode == "direct":
		return virtqemudSock, true
	case mode == "legacy":
		return libvirtSock, true
	case d.has(virtqemudSock):
		return virtqemudSock, false
	}
	return libvirtSock, false
}

// finding says which daemons manage the domains and what that means.
func (d daemons) finding() finding {
	const what = "libvirt daemon"
	u, err := url.Parse(d.uri)
	if err != nil || u.Path != "/system" {
		return finding{what, ok, fmt.Sprintf("not looked for: %s is not served by the system's daemons", d.uri), ""}
	}
	if d.problem != "" {
		return finding{what, warn, "/run/libvirt, where the daemons' sockets are, could not be read: " + d.problem, "run this as root to know"}
	}
	socket, said := d.chosen(u)
	mono := d.behind()
	switch {
	case strings.HasPrefix(socket, "/"):
		return finding{what, ok, fmt.Sprintf("the URI names a socket of its own, %s; which daemon has it is not looked for", socket), ""}
	case !d.has(libvirtSock) && !d.has(virtqemudSock):
		return finding{what, warn, "there is neither libvirt-sock nor virtqemud-sock in /run/libvirt: no daemon runs and systemd holds no socket for one",
			"systemctl enable --now libvirtd.socket; with modular daemons virtqemud.socket, virtnetworkd.socket and virtlogd.socket"}
	case !d.has(socket):
		return finding{what, warn, fmt.Sprintf("%s asks for %s, which does not exist in /run/libvirt; there is %s", d.uri, socket, d.other(socket)), "take mode and socket out of uri in [libvirt]"}
	case d.has(libvirtSock) && d.has(virtqemudSock) && mono != "virtproxyd":
		return d.both(socket, said, mono)
	case socket == virtqemudSock:
		return d.modular()
	case mono == "virtproxyd":
		return d.proxied()
	}
	return finding{what, ok, "libvirtd, the monolithic daemon, serves " + d.uri + "; " + d.activation("libvirtd") +
		"; it takes note of new files in /etc/libvirt/hooks at systemctl restart libvirtd (guests run on); logs: journalctl -u libvirtd, and of each guest /var/log/libvirt/qemu/NAME.log", ""}
}

func (d daemons) other(socket string) string {
	if socket == libvirtSock {
		return virtqemudSock
	}
	return libvirtSock
}
