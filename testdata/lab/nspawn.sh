#!/usr/bin/env bash
# nspawn.sh: a container in which systemd is PID 1, in a throw-away copy of a file tree.
#
# usage, as root; needs the packages of `setup.sh --packages-for package`:
#   nspawn.sh tree KIND                         make or reuse the tree; its path is the last line
#   nspawn.sh hold DIR KIND [--bind DIR]...     boot it and say "up"; it lasts until standard input ends
#   nspawn.sh join DIR CMD...                   run a command inside, as root; its exit code
#
# A KIND says what the tree holds besides systemd, dbus and polkitd, all of Debian 12:
#   package      what the agent's package depends on, and rpm; no libvirtd
#   libvirt      the same, and all that libvirt-daemon-system needs, QEMU too; that package itself is not
#                installed, but lies in /opt/libvirt with those that belong to it, for apt-get to install
#
# hold: "up" is printed when the start is over, within 60 seconds; else the journal's end is. DIR, made when
# missing, then holds the console's output; what is written in the container is in memory, and all of it is
# gone when hold ends, however it is ended: the container stands and falls with it. Each --bind is there
# read-only, under the same path. The container has a network of its own that leads nowhere, and may reboot.
# Any number may run side by side.
#
# join: the environment is a login's of root, the working directory is /. It waits for a reboot to be over.
#
# Exit code 75 (EX_TEMPFAIL) says that this machine does not allow such a container.
#
# Trees are kept as other-libvirt.sh keeps its own, in $EGRESS_HOSTAGENT_CACHE, from $EGRESS_HOSTAGENT_MIRROR.
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")
here=${self%/*}
cache=${EGRESS_HOSTAGENT_CACHE:-/var/cache/egress-hostagent-lab}

say() { printf 'nspawn: %3ds %s\n' "$SECONDS" "$*" >&2; }
die() {
	printf 'nspawn: %s\n' "$*" >&2
	exit 1
}
refused() {
	printf 'nspawn: this machine does not allow it: %s\n' "$*" >&2
	exit 75
}

# --- trees ---

packages_of() {
	printf '%s\n' systemd-sysv dbus polkitd libvirt0 qemu-utils procps
	case $1 in
	package) echo rpm ;;
	libvirt) printf '%s\n' adduser debconf dnsmasq-base gettext-base iproute2 iptables libvirt-clients \
		libvirt-daemon logrotate qemu-system-x86 ;;
	*) die "unknown kind $1; see the top of $self" ;;
	esac
}

# settle TREE: what a container can not do, or would only wait for, is not started.
settle() {
	local unit
	for unit in getty@.service console-getty.service systemd-networkd-wait-online.service apt-daily.timer \
		apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer; do
		ln -sf /dev/null "$1/etc/systemd/system/$unit"
	done
	# Each copy is a machine of its own, as an image's first boot makes it.
	: >"$1/etc/machine-id"
	rm -f "$1/var/lib/dbus/machine-id" "$1/etc/resolv.conf" "$1/usr/sbin/policy-rc.d"
	echo lab >"$1/etc/hostname"
}

# libvirt_later TREE: lays down the packages that make a libvirt host of the tree, and QEMU's settings as
# they are where control groups and AppArmor are not the container's.
libvirt_later() {
	rm -f "$1"/var/cache/apt/archives/*.deb # those of the tree itself
	chroot "$1" apt-get --yes --no-install-recommends --download-only install libvirt-daemon-system
	mkdir -p "$1/opt/libvirt" "$1/etc/libvirt"
	mv "$1"/var/cache/apt/archives/*.deb "$1/opt/libvirt/"
	printf 'security_driver = "none"\ncgroup_controllers = []\n' >"$1/etc/libvirt/qemu.conf"
}

build() {
	local new hooks=()
	say "building the tree of $kind, which happens once"
	work=$(mktemp -d "$cache/tree-build.XXXXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	new=$work/tree
	# While the package lists are still there.
	[ "$kind" != libvirt ] || hooks=(--customize-hook="bash '$self' libvirt_later \"\$1\"")
	mmdebstrap --mode=root --variant=minbase --include="$(packages_of "$kind" | paste -sd ,)" \
		--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --aptopt='APT::Sandbox::User "root"' \
		--dpkgopt='force-unsafe-io' --dpkgopt='path-exclude=/usr/share/locale/*' \
		"${hooks[@]}" bookworm "$new" ${EGRESS_HOSTAGENT_MIRROR:+"$EGRESS_HOSTAGENT_MIRROR"} >"$work/log" 2>&1 ||
		die "the tree could not be built: $(tail -n 30 "$work/log")"
	settle "$new"
	chmod 0755 "$new"
	mv "$new" "$tree"
	say "done: $(du -sm "$tree" | cut -f 1) MiB"
}

# prune: old trees, and what killed builds left behind. The caller holds the lock.
prune() {
	local stamp
	rm -rf --one-file-system "$cache"/tree-build.????????
	find "$cache" -maxdepth 1 -name 'tree-*.used' -mtime +14 | while read -r stamp; do
		say "removing ${stamp%.used}, not used for 14 days"
		rm -rf --one-file-system "${stamp%.used}" "$stamp"
	done
}

# recipe KIND: what a tree depends on; its hash names the tree.
recipe() {
	packages_of "$1"
	declare -f settle build libvirt_later
}

# need_tree: sets tree to the path of the kind's tree, made where it is missing.
need_tree() {
	tree=$cache/tree-$kind-$(recipe "$kind" | sha256sum | cut -c 1-16)
	if [ ! -e "$tree" ]; then
		command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: run $here/setup.sh --packages-for package"
		mkdir -p "$cache"
		(
			exec 9>"$cache/tree-lock"
			flock --nonblock 9 || { say "another build is running, waiting for it" && flock 9; }
			prune
			[ -e "$tree" ] || build
		)
	fi
	touch "$tree.used"
}

# --- inside hold's namespaces ---

# control_groups NAME: one hierarchy, as on a machine of today, and a group in it for this container
# alone, so that several do not meet.
control_groups() {
	local own
	mount -t cgroup2 lab-cgroup /sys/fs/cgroup
	own=$(sed -n 's/^0:://p' /proc/self/cgroup)
	parent=/sys/fs/cgroup${own%/}
	group=$parent/$1
	mkdir -p "$group"
	echo "$BASHPID" >"$group/cgroup.procs"
}

# remove_group NAME: runs in a mount namespace of its own, as control_groups does; all processes have ended.
remove_group() {
	control_groups "$1"
	echo "$BASHPID" >"$parent/cgroup.procs"
	find "$group" -depth -type d -exec rmdir {} +
	# A hold that was killed could not: its group is empty, and older than it takes to fill a new one.
	find "$parent" -maxdepth 1 -name 'egress-lab-*' -mmin +2 | while read -r group; do
		grep -q '^populated 1' "$group/cgroup.events" || find "$group" -depth -type d -exec rmdir {} +
	done
}

# inside DIR TREE KIND NAME BIND...: runs as the first process of mount and process namespaces, sets up the
# copy and is the container's supervisor.
inside() {
	local copy=$1/copy lower=$2 kind=$3 name=$4 bind code args=()
	shift 4
	mount -t proc proc /proc
	mount -t tmpfs -o mode=0755 lab-run /run
	mount -t tmpfs -o mode=0755 lab-copy "$copy"
	mkdir "$copy"/{root,upper,work}
	mount -t overlay -o "lowerdir=$lower,upperdir=$copy/upper,workdir=$copy/work" lab-root "$copy/root"
	for bind in "$@"; do args+=("--bind-ro=$bind"); done
	# For the guests' network.
	[ "$kind" != libvirt ] || args+=(--bind=/dev/net/tun)
	control_groups "$name"
	# 133 is how it asks, with --keep-unit, to be started again after a reboot.
	code=133
	while [ "$code" = 133 ]; do
		code=0
		systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --console=pipe --link-journal=no \
			--resolv-conf=off --timezone=off --machine=lab --directory="$copy/root" "${args[@]}" || code=$?
	done
	exit "$code"
}

# in_namespaces VERB ARG...: becomes this script's verb, in namespaces that end with this process.
in_namespaces() {
	exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private -- \
		bash "$self" "$@"
}

# try NAME: whether the namespaces, mounts and control groups that a container needs are to be had.
try() {
	mount -t proc proc /proc
	mount -t tmpfs lab-run /run
	remove_group "$1"
}

# --- hold ---

# child: sets pid to the oldest child of that process. Without a process of its own, as join is called often.
child() {
	local of=
	read -r of _ 2>/dev/null <"/proc/$pid/task/$pid/children" || [ -n "$of" ] || return 1
	pid=$of
}

# leader: sets pid to the process that is PID 1 of the container, as it is known here: below hold are
# setpriv, which becomes unshare, inside, nspawn, and it.
leader() {
	read -r pid 2>/dev/null <"$dir/pid" && child && child && child
}

# enter CMD...: becomes the command, inside, where pid is PID 1. A shell outside waits for it: a shutdown
# stops each process inside for a moment, and nsenter, if it waited, would stop along with its child, for good.
enter() {
	# shellcheck disable=SC2016 # the shell's own
	exec nsenter --no-fork --target "$pid" --mount --uts --ipc --net --pid --cgroup --root --wd -- \
		env -i HOME=/root USER=root LOGNAME=root LANG=C.UTF-8 SHELL=/bin/sh \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c '"$@"; exit "$?"' sh "$@"
}

# up: whether the start is over, by what systemd says; pid is then PID 1.
up() {
	leader && [[ $( (enter timeout 5 systemctl is-system-running) 2>/dev/null) =~ ^(running|degraded)$ ]]
}

# still_up: whether PID 1 is the one that was found up, and not yet what systemd becomes to shut down.
still_up() {
	local was name
	read -r was 2>/dev/null <"$dir/up" && leader && [ "$pid" = "$was" ] &&
		read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = systemd ]
}

# wait_up: until the start is over; pid is then PID 1.
wait_up() {
	local deadline=$((SECONDS + 60))
	until up; do
		[ -e "/proc/$(cat "$dir/pid" 2>/dev/null || echo none)" ] ||
			die "no container in $dir: $(tail -n 20 "$dir/console" 2>&1)"
		if [ "$SECONDS" -ge "$deadline" ]; then
			tail -n 20 "$dir/console" >&2
			! leader || (enter timeout 10 journalctl --no-pager --lines 40 >&2) || true
			die "the container in $dir is not up after 60 s"
		fi
		sleep 0.1
	done
	echo "$pid" >"$dir/up"
}

# finish: nothing of it stays: the namespaces' end unmounts, and takes what runs in them along.
finish() {
	kill -KILL "$outer" ${reader:+"$reader"} 2>/dev/null || true
	wait "$outer" 2>/dev/null || true
	rm -f "$dir/pid" "$dir/up"
	rmdir "$dir/copy" 2>/dev/null || true # who made DIR may have removed it
	(in_namespaces try "$name") || say "the control group $name is still there"
}

hold() {
	dir=$(realpath -m "$1")
	kind=$2
	name=egress-lab-$$
	reader=
	local binds=()
	shift 2
	while [ "${1:-}" = --bind ]; do
		binds+=("$(realpath -e "$2")")
		shift 2
	done
	[ $# = 0 ] || die "usage: see the top of $self"
	(in_namespaces try "$name") || refused "namespaces, mounts or control groups"
	need_tree
	mkdir -p "$dir/copy"
	(in_namespaces inside "$dir" "$tree" "$kind" "$name" "${binds[@]}" </dev/null >"$dir/console" 2>&1) &
	outer=$!
	echo "$outer" >"$dir/pid"
	trap finish EXIT
	trap 'exit 143' TERM INT
	wait_up
	echo up
	# In the background, as a trap runs only when a command in the foreground has ended.
	cat <&0 >/dev/null &
	reader=$!
	wait -n "$outer" "$reader"
	kill -0 "$outer" 2>/dev/null || die "the container in $dir has ended by itself"
}

join() {
	dir=$1
	shift
	still_up || wait_up
	enter "$@"
}

main() {
	local verb=${1:-}
	[ $# -ge 2 ] || die "usage: see the top of $self"
	[ "$EUID" = 0 ] || refused "it needs root"
	shift
	case $verb in
	tree)
		kind=$1
		need_tree
		echo "$tree"
		;;
	hold | join)
		[ $# -ge 2 ] || die "usage: see the top of $self"
		"$verb" "$@"
		;;
	inside | try | libvirt_later) "$verb" "$@" ;;
	*) die "unknown verb $verb; see the top of $self" ;;
	esac
}

main "$@"
