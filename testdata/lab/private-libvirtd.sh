#!/usr/bin/env bash
# private-libvirtd.sh: a libvirtd of one's own, beside the machine's and unable to touch it.
#
# usage, as root:
#   private-libvirtd.sh start DIR            start it, all its files beneath DIR (made when missing)
#   private-libvirtd.sh join DIR CMD...      run a command inside, as root
#   private-libvirtd.sh user DIR CMD...      run a command inside, as egress-hostagent
#   private-libvirtd.sh down DIR [SIGNAL]    end libvirtd alone (TERM); its guests and network stay
#   private-libvirtd.sh up DIR               start libvirtd again after down
#   private-libvirtd.sh stop DIR [--keep]    end everything inside; remove DIR, or keep it for another start
#
# Inside means: mount and network namespaces of its own. There, qemu:///system is the private libvirtd,
# and these paths are directories of DIR:
#   /run               DIR/run    so neither the machine's libvirtd nor its D-Bus (firewalld, machined) is seen
#   /etc/libvirt       DIR/etc    libvirtd.conf, qemu.conf, virtlogd.conf: written by start unless they exist
#   /var/lib/libvirt   DIR/lib    with the image tree's top, images/egress, as the package would make it
#   /var/cache/libvirt DIR/cache
#   /var/log/libvirt   DIR/log    what libvirtd says is in libvirtd.out
#   /var/lib/egress-hostagent  DIR/home
# From outside: qemu+unix:///system?socket=DIR/run/libvirt/libvirt-sock
#
# The network `default` is up inside: bridge virbr0, 192.168.122.1/24, with DHCP and a name server that
# knows connectivity.example as the bridge's address. Nothing leads out of it. /dev/kvm does not exist
# inside, so that guests run the same everywhere (and see hide_kvm). Any number may run side by side.
#
# A process belongs to DIR when its /run is DIR/run. Only such processes are ever signalled.
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")
here=$(dirname "$self")
agent=egress-hostagent
state=/var/lib/egress-hostagent
uri=qemu:///system

die() {
	printf 'private-libvirtd: %s\n' "$*" >&2
	exit 1
}

# --- processes ---

# belongs PID: whether it runs inside.
belongs() { [ "/proc/$1/root/run" -ef "$dir/run" ]; }

# members: every process inside. One that has ended and is not yet reaped has no root any more, so is not listed.
members() {
	local proc
	for proc in /proc/[0-9]*; do
		if belongs "${proc#/proc/}"; then echo "${proc#/proc/}"; fi
	done 2>/dev/null
}

# pid NAME: the process whose id is in DIR/NAME.pid, if it still runs inside.
pid() {
	local id
	id=$(cat "$dir/run/$1.pid" 2>/dev/null) && [ -n "$id" ] && belongs "$id" 2>/dev/null && echo "$id"
}

# until_true SECONDS CMD...: waits for a condition; fails when it does not come.
until_true() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.05
	done
}

gone() { ! belongs "$1" 2>/dev/null; }
empty() { [ -z "$(members)" ]; }

# --- namespaces ---

# enter CMD...: becomes the command, inside, in the same working directory.
enter() {
	local holder
	holder=$(pid holder) || holder=$(members | head -n 1)
	[ -n "$holder" ] || die "nothing runs in $dir: $self start $dir"
	exec nsenter --target "$holder" --mount --net --wdns="$PWD" -- "$@"
}

# hide_kvm: a copy of /dev without kvm. libvirtd probes KVM as root and checks it as libvirt-qemu; where
# only root may use /dev/kvm its capability cache is never valid, and each look-up starts QEMU anew.
# A file mounted over the node would be probed as well; only its absence settles it.
hide_kvm() {
	local new=$dir/dev entry
	[ -e /dev/kvm ] || return 0
	mkdir -p "$new"
	mount -t tmpfs -o mode=0755,nosuid lab-dev "$new"
	for entry in /dev/*; do
		if [ "$entry" = /dev/kvm ]; then
			continue
		elif mountpoint -q "$entry" && [ -d "$entry" ]; then
			mkdir "$new/${entry#/dev/}"
			mount --rbind "$entry" "$new/${entry#/dev/}"
		else
			cp -a "$entry" "$new/"
		fi
	done
	mount --rbind "$new" /dev
}

# namespace: runs as the first process inside, sets it up and then holds it open.
namespace() {
	hide_kvm
	# Else libvirtd would see, and set, the bridges of the machine.
	mount -t sysfs sysfs /sys
	mount --bind "$dir/etc" /etc/libvirt
	mount --bind "$dir/lib" /var/lib/libvirt
	mount --bind "$dir/cache" /var/cache/libvirt
	mount --bind "$dir/log" /var/log/libvirt
	mount --bind "$dir/home" "$state"
	if [ -d /run/udev ]; then
		mkdir -p "$dir/run/udev"
		mount --bind /run/udev "$dir/run/udev"
	fi
	mount --rbind "$dir/run" /run
	ip link set lo up
	"$here/tc.sh" >>/var/log/libvirt/tc.out 2>&1
	echo $$ >/run/holder.pid
	exec sleep infinity
}

# --- start ---

# config FILE: writes standard input there, unless the file exists.
config() {
	if [ -e "$dir/etc/$1" ]; then cat >/dev/null; else cat >"$dir/etc/$1"; fi
}

configure() {
	config libvirtd.conf <<-'END'
		unix_sock_group = "libvirt"
		unix_sock_ro_perms = "0770"
		unix_sock_rw_perms = "0770"
		auth_unix_ro = "none"
		auth_unix_rw = "none"
	END
	# Profiles of AppArmor and control groups would be the machine's; the lab does without.
	config qemu.conf <<-'END'
		security_driver = "none"
		stdio_handler = "logd"
		cgroup_controllers = []
	END
	config virtlogd.conf </dev/null
	config qemu/networks/default.xml <<-'END'
		<network>
		  <name>default</name>
		  <forward mode='nat'/>
		  <bridge name='virbr0' stp='on' delay='0'/>
		  <dns><host ip='192.168.122.1'><hostname>connectivity.example</hostname></host></dns>
		  <ip address='192.168.122.1' netmask='255.255.255.0'>
		    <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp>
		  </ip>
		</network>
	END
	ln -sf ../default.xml "$dir/etc/qemu/networks/autostart/default.xml"
}

# claim: takes DIR, which must be empty, missing or a kept one, and ends what a killed start left there.
claim() {
	if [ ! -d /etc/libvirt ] || ! id "$agent" >/dev/null 2>&1; then
		die "libvirtd or the user $agent is missing: run $here/setup.sh --packages-for libvirtd"
	fi
	case $dir in /run/* | /var/run/*) die "$dir would be hidden by the /run inside: take another" ;; esac
	mkdir -p "$dir"
	[ -e "$dir/.private-libvirtd" ] || [ -z "$(ls -A "$dir")" ] || die "$dir is not empty and not one of mine"
	touch "$dir/.private-libvirtd"
	end_members
}

# prepare: DIR's tree. /run is as after a boot; all else is kept when DIR was kept.
prepare() {
	rm -rf --one-file-system "$dir/run"
	mkdir -p "$dir"/{run/{lock,libvirt},etc/qemu/networks/autostart,etc/hooks,lib/images,cache,log}
	chmod 0755 "$dir/run" "$dir/lib" "$dir/lib/images"
	install -d -o "$agent" -g "$agent" -m 0750 "$dir/home" "$dir/run/$agent"
	install -d -o "$agent" -g libvirt-qemu -m 2710 "$dir/lib/images/egress"
	configure
	# libvirt's own network filters, clean-traffic among them, are where the package puts them at its install.
	install -d -m 0700 "$dir/etc/nwfilter"
	cp --no-clobber /usr/share/libvirt/nwfilter/*.xml "$dir/etc/nwfilter/"
	go_build "$dir/reaper" ./reaper
}

go_build() {
	export GOCACHE=${GOCACHE:-${HOME:-/root}/.cache/go-build} PATH=$PATH:/usr/local/go/bin
	(cd "$here" && go build -buildvcs=false -o "$1" "$2") || die "build $2: see $here/setup.sh"
}

# daemon NAME ARG...: starts it inside, under a reaper, with its output in DIR/log/NAME.out.
daemon() {
	local name=$1
	shift
	(cd / && enter setsid --fork "$dir/reaper" "$name" --pid-file "/run/$name.pid" "$@" \
		</dev/null >>"$dir/log/$name.out" 2>&1)
}

answers() { ("$self" join "$dir" virsh -q -c "$uri" net-info default 2>/dev/null || true) | grep -q '^Active: *yes'; }

answers_or_ended() { answers || ! pid libvirtd >/dev/null; }

start_libvirtd() {
	daemon libvirtd
	if ! { until_true 20 pid libvirtd >/dev/null && until_true 60 answers_or_ended && answers; }; then
		tail -n 12 "$dir/log/libvirtd.out" >&2
		die "libvirtd or its network default did not come up"
	fi
}

start() {
	if pid libvirtd >/dev/null; then
		echo "private-libvirtd: already running in $dir"
		return
	fi
	claim
	trap 'echo "private-libvirtd: start did not succeed; logs are in $dir/log" >&2; end_members' EXIT
	prepare
	setsid --fork unshare --mount --net --propagation private \
		bash "$self" namespace "$dir" </dev/null >"$dir/log/namespace.out" 2>&1
	until_true 10 pid holder >/dev/null || die "namespaces: $(cat "$dir/log/namespace.out")"
	daemon virtlogd
	until_true 10 pid virtlogd >/dev/null || die "virtlogd: $(cat "$dir/log/virtlogd.out")"
	start_libvirtd
	trap - EXIT
}

up() {
	pid libvirtd >/dev/null || start_libvirtd
}

down() {
	local id
	id=$(pid libvirtd) || return 0
	kill -s "${1:-TERM}" "$id"
	until_true 30 gone "$id" || die "libvirtd ($id) does not end on ${1:-TERM}"
}

# --- stop ---

destroy_domains() {
	local name
	pid libvirtd >/dev/null || return 0
	{ "$self" join "$dir" timeout 10 virsh -q -c "$uri" list --name || true; } | while read -r name; do
		[ -z "$name" ] || "$self" join "$dir" timeout 10 virsh -q -c "$uri" destroy "$name" >/dev/null || true
	done
}

# end_members: politely, then not. The order lets libvirtd go before the guests it would report on.
end_members() {
	local id signal
	# One that stands still would not hear it.
	kill -s CONT "$(pid libvirtd)" 2>/dev/null || true
	(down TERM) 2>/dev/null || true
	for signal in TERM KILL; do
		if empty; then return; fi
		for id in $(members); do
			kill -s "$signal" "$id" 2>/dev/null || true
		done
		until_true 10 empty || true
	done
	empty || die "these processes in $dir do not end: $(members | tr '\n' ' ')"
}

# unmount: mounts live and die with the namespace; should one have got out of it, it goes here, deepest first.
unmount() {
	awk -v top="$dir/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r point; do
		umount --lazy "$point"
	done
}

stop() {
	[ -d "$dir" ] || return 0
	[ -e "$dir/.private-libvirtd" ] || die "$dir is not one of mine"
	if [ -d "$dir/run" ]; then
		if belongs self; then die "cannot stop $dir from inside"; fi
		destroy_domains
		end_members
	fi
	unmount
	[ "${1:-}" = --keep ] || rm -rf --one-file-system "$dir"
}

# --- commands ---

as_user() {
	export HOME=$state USER=$agent LOGNAME=$agent
	unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME
	enter setpriv --reuid="$agent" --regid="$agent" --init-groups -- "$@"
}

main() {
	local verb=${1:-}
	[ $# -ge 2 ] || die "usage: see the top of $self"
	[ "$(id -u)" = 0 ] || die "needs root"
	dir=$(realpath -m "$2")
	shift 2
	case $verb in
	start | stop | up | down | namespace) "$verb" "$@" ;;
	join) enter "$@" ;;
	user) as_user "$@" ;;
	*) die "unknown verb $verb; see the top of $self" ;;
	esac
}

main "$@"
