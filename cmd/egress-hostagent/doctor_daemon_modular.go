package main

import (
	"fmt"
	"slices"
)

// activation says whether systemd holds a daemon's socket.
func (d daemons) activation(daemon string) string {
	if !d.systemd {
		return "systemd does not run here, so the daemon is started and restarted by other means"
	}
	if slices.Contains(d.enabled, daemon+".socket") {
		return daemon + ".socket is enabled, so systemd starts the daemon at the first connection and it may end when idle"
	}
	return daemon + ".socket is not enabled, so the daemon has to be started itself"
}

// both is for a libvirtd beside a virtqemud: each keeps its own list of the
// same domains, and neither sees what the other does.
func (d daemons) both(socket string, said bool, mono string) finding {
	serves, how := "virtqemud", "whose socket libvirt's client takes first"
	if socket == libvirtSock {
		serves = "libvirtd"
	}
	if said {
		how = "because the URI says so"
	}
	detail := fmt.Sprintf("libvirt-sock and virtqemud-sock are both in /run/libvirt: two daemons may manage the same domains, each blind to what the other does; %s serves %s, %s", serves, d.uri, how)
	remedy := "keep one: systemctl disable --now libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd.service, and mask libvirtd.service; or disable the sockets and services of virtqemud and virtnetworkd; then restart the agent"
	if mono == "" {
		detail += "; libvirt-sock may also be virtproxyd's, which only passes calls on and does no harm"
		remedy = "see which it is: systemctl status libvirtd.socket virtproxyd.socket; if libvirtd, " + remedy
	}
	return finding{"libvirt daemon", warn, detail, remedy}
}

// modular is for virtqemud as the one that serves.
func (d daemons) modular() finding {
	detail := "virtqemud, of the modular daemons, serves " + d.uri + "; " + d.activation("virtqemud")
	if d.has(libvirtSock) && d.behind() == "virtproxyd" {
		detail += "; libvirt-sock is virtproxyd's, which passes calls on to it"
	}
	detail += "; it takes note of new files in /etc/libvirt/hooks at systemctl restart virtqemud (guests run on), of network hooks virtnetworkd at its own; logs: journalctl -u virtqemud -u virtnetworkd, and of each guest /var/log/libvirt/qemu/NAME.log"
	if !d.has(virtnetworkdSock) {
		return finding{"libvirt daemon", warn, detail + "; virtnetworkd-sock is missing, so libvirt's networks can not be reached", "systemctl enable --now virtnetworkd.socket"}
	}
	return finding{"libvirt daemon", ok, detail, ""}
}

// proxied is for a connection by way of virtproxyd.
func (d daemons) proxied() finding {
	detail := "virtproxyd serves " + d.uri + " and passes calls on to virtqemud, whose hooks and logs are those that count (systemctl restart virtqemud, journalctl -u virtqemud)"
	if !d.has(virtqemudSock) {
		return finding{"libvirt daemon", warn, detail + "; but virtqemud-sock is missing", "systemctl enable --now virtqemud.socket virtnetworkd.socket virtlogd.socket"}
	}
	return finding{"libvirt daemon", warn, detail, "take mode=legacy and socket out of uri in [libvirt], to reach virtqemud directly"}
}
