#!/bin/sh
# Makes sure that the QEMU guest agent is installed and runs, so that the host
# can learn this machine's addresses. cloud-init runs it once per instance, after
# the packages the user asked for and before runcmd, which waits for it.
#
# A machine without the agent is still a good machine: whatever goes wrong is
# said on standard output, and the script always exits 0.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
DEBIAN_FRONTEND=noninteractive
NEEDRESTART_SUSPEND=1
export PATH LC_ALL DEBIAN_FRONTEND NEEDRESTART_SUSPEND
umask 022

name=qemu-guest-agent
channel=org.qemu.guest_agent.0
most_tries=5
pause=10      # seconds between two tries
last_try=300  # seconds after the first try in which another may begin

log() {
	printf 'egress-guest-agent: %s\n' "$*"
}

has() {
	command -v "$1" >/dev/null 2>&1
}

# Time since boot: the wall clock may jump while the machine starts.
uptime_seconds() {
	up=0
	{ read -r up _ </proc/uptime; } 2>/dev/null
	echo "${up%%.*}"
}

# bounded SECONDS COMMAND...: only for commands that may be killed, so never for
# a package transaction. The probe sorts out old timeouts with another syntax.
bounded() {
	if timeout 1 true >/dev/null 2>&1; then
		timeout "$@"
	else
		shift
		"$@"
	fi
}

# Sets $port to the device of the agent's channel, such as vport1p1. sysfs is
# right everywhere; the links in /dev/virtio-ports need udev.
find_port() {
	for entry in /sys/class/virtio-ports/*/name; do
		found=
		{ read -r found <"$entry"; } 2>/dev/null
		if [ "$found" = "$channel" ]; then
			port=${entry%/name}
			port=${port##*/}
			return 0
		fi
	done
	return 1
}

installed() {
	has qemu-ga || [ -x /usr/libexec/qemu-ga ]
}

# A default route, IPv4 or IPv6, that is not a reject route. Where the kernel
# does not tell, there is one.
has_default_route() {
	[ -r /proc/net/route ] || return 0
	while read -r device target _ _ _ _ _ mask _; do
		[ "$target:$mask" = 00000000:00000000 ] && [ "$device" != '*' ] && return 0
	done </proc/net/route
	[ -r /proc/net/ipv6_route ] || return 1
	while read -r target bits _ _ _ _ _ _ _ device; do
		[ "$target:$bits" = 00000000000000000000000000000000:00 ] && [ "$device" != lo ] && return 0
	done </proc/net/ipv6_route
	return 1
}

pick_manager() {
	for manager in apt-get dnf yum zypper apk; do
		has "$manager" && return 0
	done
	return 1
}

# One try. Its exit code means nothing: what counts is whether the agent is
# there afterwards.
run_manager() {
	case $manager in
	apt-get)
		set -- -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=1 \
			-o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
		bounded 120 apt-get "$@" update
		apt-get "$@" -y --no-install-recommends \
			-o Dpkg::Options::=--force-confold install "$name"
		;;
	dnf)
		dnf -y --setopt=timeout=20 --setopt=retries=2 \
			--setopt=install_weak_deps=False install "$name"
		;;
	yum)
		yum -y --setopt=timeout=20 --setopt=retries=2 install "$name"
		;;
	zypper)
		ZYPP_LOCK_TIMEOUT=120 zypper --non-interactive install --no-recommends "$name"
		;;
	apk)
		apk add --no-cache --no-progress --wait 120 "$name"
		;;
	esac
}

# Tries again because apt waits for dpkg's lock but not for the one on its
# lists, which some other apt may hold for a while after boot. Without a default
# route a second try would only delay runcmd.
install_agent() {
	if ! pick_manager; then
		log "no package manager that this script knows"
		return 1
	fi
	began=$(uptime_seconds)
	tries=1
	while :; do
		log "try $tries: $manager"
		run_manager
		installed && return 0
		[ "$tries" -lt "$most_tries" ] || return 1
		if ! has_default_route; then
			log "no default route, so no further try"
			return 1
		fi
		[ $(($(uptime_seconds) + pause - began)) -le "$last_try" ] || return 1
		sleep "$pause"
		tries=$((tries + 1))
	done
}

# The package's udev rule came after the port did, so the port has to be
# announced again: the unit waits for its device, for a minute and a half
# otherwise. On Debian the unit is static and can not be enabled.
start_with_systemd() {
	systemctl enable "$name.service" >/dev/null 2>&1
	has udevadm && udevadm trigger --action=change --subsystem-match=virtio-ports
	bounded 30 systemctl start "$name.service"
}

# Where mdev manages /dev there is no link to the port, and the service would
# look for it in vain. A path somebody set is left alone.
start_with_openrc() {
	conf=/etc/conf.d/$name
	if [ ! -e "/dev/virtio-ports/$channel" ] && [ -e "/dev/$port" ] &&
		! grep -Eqs '^[[:space:]]*(export[[:space:]]+)?GA_PATH=' "$conf"; then
		printf '\nGA_PATH="/dev/%s"\n' "$port" >>"$conf"
	fi
	rc-update add "$name" default >/dev/null 2>&1
	rc-service "$name" status >/dev/null 2>&1 || bounded 30 rc-service "$name" start
}

start_agent() {
	if [ -d /run/systemd/system ]; then
		start_with_systemd
	elif has rc-service; then
		start_with_openrc
	else
		log "no init system that this script knows"
		return 1
	fi
}

main() {
	cd / || return
	if ! find_port; then
		has modprobe && modprobe virtio_console 2>/dev/null
		if ! find_port; then
			log "this machine has no guest agent channel, nothing to do"
			return
		fi
	fi
	if ! installed && ! install_agent; then
		log "the guest agent could not be installed"
		return
	fi
	if start_agent; then
		log "the guest agent is installed and started"
	else
		log "the guest agent is installed, but was not started"
	fi
}

main </dev/null
exit 0
