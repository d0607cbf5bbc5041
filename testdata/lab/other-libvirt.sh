#!/usr/bin/env bash
# other-libvirt.sh: the libvirt of another release, in a file tree of its own, beside the machine's.
#
# usage, as root; needs the packages of `setup.sh --packages-for versions`:
#   other-libvirt.sh tree RELEASE                          make or reuse the tree; its path is the last line
#   other-libvirt.sh run RELEASE [--bind DIR]... CMD...    run a command in a throw-away copy of the tree
#
# A RELEASE is one that mmdebstrap knows:
#   bullseye     libvirt's client library alone (7.0), no daemon
#   trixie       modular daemons (11.3): virtqemud, virtnetworkd and virtlogd, no libvirtd
#   any other    libvirtd, as on Debian 12
# Debian ships modular daemons in no release, while other distributions do. But what tells virtqemud
# from libvirtd is its main program alone, seven small files: they are compiled from Debian's source
# of the very version and linked with the installed libvirt, whose drivers are loaded as they are.
#
# run: the command is root in mount, network and process namespaces of its own. Daemons are started
# first, so that qemu:///system answers and the network `default` is up (as private-libvirtd.sh has it),
# and are killed after it, with all else that runs there. What is written there is in memory, and gone then. The
# module's checkout and each DIR are there read-only, under the same path; the working directory and
# the environment stay, but for HOME, PATH and TMPDIR. There is no /dev/kvm, for the reason that hide_kvm of
# private-libvirtd.sh gives. The exit code is the command's. TERM and INT reach it as TERM.
#
# Trees are kept in $EGRESS_HOSTAGENT_CACHE, by default /var/cache/egress-hostagent-lab. A tree's name holds
# a hash of this file, so that an edit makes a new one; a tree not used for 14 days is removed.
# $EGRESS_HOSTAGENT_MIRROR names a mirror, or is a whole line of sources.list, to use in place of mmdebstrap's default.
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")
here=$(dirname "$self")
repo=$(realpath "$here/../..")
cache=${EGRESS_HOSTAGENT_CACHE:-/var/cache/egress-hostagent-lab}
agent=egress-hostagent
modular=(virtqemud virtnetworkd)
apt=(apt-get -q -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3)

say() { printf 'other-libvirt: %3ds %s\n' "$SECONDS" "$*" >&2; }
die() {
	printf 'other-libvirt: %s\n' "$*" >&2
	exit 1
}

# --- what a tree holds ---

packages_of() {
	case $1 in
	bullseye) echo libvirt0 ;;
	trixie) printf '%s\n' libvirt-daemon-driver-qemu libvirt-daemon-driver-network libvirt-daemon-log ;;
	*) echo libvirt-daemon-system ;;
	esac
	[ "$1" = bullseye ] ||
		printf '%s\n' libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iproute2 iptables nftables
}

# headers: what compiling the daemons needs.
headers=(gcc libc6-dev meson ninja-build pkgconf patch xz-utils libxml2-utils xsltproc
	libglib2.0-dev libgnutls28-dev libjson-c-dev libtirpc-dev libxml2-dev)

# compile_daemons: runs in a copy of the tree, with apt at hand; leaves the daemons in /.
compile_daemons() {
	local version name object objects=()
	version=$(dpkg-query --show --showformat '${source:Version}' libvirt0)
	sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
	"${apt[@]}" update
	DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --yes --no-install-recommends "${headers[@]}"
	mkdir /build && cd /build
	# Without the .dsc, which signs them: apt knows each file's hash from the signed index.
	"${apt[@]}" source --only-source --download-only --tar-only "libvirt=$version"
	"${apt[@]}" source --only-source --download-only --diff-only "libvirt=$version"
	tar -x --strip-components=1 -f libvirt_*.orig.tar.xz
	tar -x -f libvirt_*.debian.tar.xz
	sed '/^#/d' debian/patches/series | while read -r name; do patch --silent -p1 <"debian/patches/$name"; done
	meson setup out -Dauto_features=disabled -Dbuildtype=plain -Doptimization=0 -Dsystem=true \
		-Dprefix=/usr -Dsysconfdir=/etc -Dlocalstatedir=/var -Drunstatedir=/run \
		-Djson_c=enabled -Ddriver_{remote,libvirtd,qemu,network}=enabled
	cd out
	for name in "${modular[@]}"; do
		for object in meson-generated_.._remote_{remote,qemu,lxc}_protocol remote_remote_daemon{,_config,_dispatch,_stream}; do
			objects+=("src/$name.p/$object.c.o")
		done
	done
	ninja src/admin/libvirt_admin_driver.a "${objects[@]}"
	for name in "${modular[@]}"; do
		# shellcheck disable=SC2046 # flags are words
		gcc -o "/$name" "src/$name.p"/*.o src/admin/libvirt_admin_driver.a \
			/usr/lib/*-linux-gnu/libvirt{,-qemu,-lxc}.so.0 $(pkg-config --libs gio-2.0 gnutls libtirpc)
	done
}

# configure TREE: as private-libvirtd.sh does.
configure() {
	local etc=$1/etc/libvirt name
	mkdir -p "$etc/qemu/networks/autostart"
	for name in libvirtd "${modular[@]}"; do
		cat >"$etc/$name.conf" <<-'END'
			unix_sock_group = "libvirt"
			unix_sock_ro_perms = "0770"
			unix_sock_rw_perms = "0770"
			auth_unix_ro = "none"
			auth_unix_rw = "none"
		END
	done
	cat >"$etc/qemu.conf" <<-'END'
		security_driver = "none"
		stdio_handler = "logd"
		cgroup_controllers = []
	END
	cat >"$etc/qemu/networks/default.xml" <<-'END'
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
	ln -sf ../default.xml "$etc/qemu/networks/autostart/default.xml"
}

# --- making it ---

# copy TREE DIR: mounts a copy of the tree on DIR/root that keeps what is written in memory. The caller
# has a mount namespace of its own.
copy() {
	mount -t tmpfs -o mode=0755 lab-copy "$2"
	mkdir "$2"/{root,upper,work}
	mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" lab-root "$2/root"
}

# daemons TREE: in a mount namespace of its own, compiles the daemons and puts them into the tree.
daemons() {
	local tree=$1 mnt=$1.mnt
	mkdir "$mnt"
	copy "$tree" "$mnt"
	mount -t proc proc "$mnt/root/proc"
	mount --rbind /dev "$mnt/root/dev"
	cat /etc/resolv.conf >"$mnt/root/etc/resolv.conf"
	cp "$self" "$mnt/root/other-libvirt.sh"
	chroot "$mnt/root" bash /other-libvirt.sh compile_daemons
	cp "${modular[@]/#/$mnt/root/}" "$tree/usr/sbin/"
	rm -f "$tree/usr/sbin/libvirtd"
	umount --lazy "$mnt" && rmdir "$mnt"
}

build() {
	local include new
	say "building the tree of $release, which happens once"
	work=$(mktemp -d "$cache/tree-build.XXXXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	new=$work/tree
	include=$(packages_of "$release" | paste -sd ,)
	mmdebstrap --mode=root --variant=minbase --include="$include" \
		--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --aptopt='APT::Sandbox::User "root"' \
		--dpkgopt='force-unsafe-io' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		"$release" "$new" ${EGRESS_HOSTAGENT_MIRROR:+"$EGRESS_HOSTAGENT_MIRROR"} >"$work/log" 2>&1 ||
		die "the tree could not be built: $(tail -n 30 "$work/log")"
	chroot "$new" useradd --system --user-group --home-dir "/var/lib/$agent" --create-home "$agent"
	if [ "$release" = trixie ]; then
		say "packages done, compiling ${modular[*]}"
		unshare --mount --propagation private -- "$self" daemons "$new" >"$work/log" 2>&1 ||
			die "the daemons could not be built: $(tail -n 30 "$work/log")"
	fi
	if [ "$release" != bullseye ]; then
		chroot "$new" usermod --append --groups libvirt "$agent"
		configure "$new"
	fi
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

# need_tree: sets tree to the path of the release's tree, made where it is missing.
need_tree() {
	local name tool
	name=tree-$release-$(sha256sum "$self" | cut -c 1-16)
	tree=$cache/$name
	if [ ! -e "$tree" ]; then
		for tool in mmdebstrap flock unshare; do
			command -v "$tool" >/dev/null || die "$tool is missing: run $here/setup.sh --packages-for versions"
		done
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

# --- running in it ---

# devices ROOT: what QEMU and libvirt need, and no kvm.
devices() {
	local dev=$1/dev
	mount -t tmpfs -o mode=0755,nosuid lab-dev "$dev"
	mkdir -p "$dev"/{net,pts,shm}
	cp -a /dev/{null,zero,full,random,urandom,tty} "$dev/"
	cp -a /dev/net/tun "$dev/net/"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$dev/pts"
	mount -t tmpfs -o mode=1777,nosuid,nodev lab-shm "$dev/shm"
	ln -s pts/ptmx "$dev/ptmx"
	ln -s /proc/self/fd "$dev/fd"
}

# inside TREE MNT COUNT DIR... CMD...: the first process in the namespaces makes the new root, goes
# there and becomes serve.
inside() {
	local tree=$1 mnt=$2 count=$3 dir root
	root=$mnt/root
	copy "$tree" "$mnt"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount -t tmpfs -o mode=0755 lab-run "$root/run"
	# On the overlay a directory and the files in it can show different devices; on no host's image tree they do.
	mkdir -p "$root/var/lib/libvirt/images"
	mount -t tmpfs -o mode=0711 lab-images "$root/var/lib/libvirt/images"
	# Some point it into /run; dnsmasq wants the directory. No server is reached from there anyhow.
	rm -f "$root/etc/resolv.conf"
	: >"$root/etc/resolv.conf"
	devices "$root"
	for dir in "$repo" "${@:4:count}"; do
		mkdir -p "$root$dir"
		mount --bind "$dir" "$root$dir"
		mount -o remount,bind,ro "$root$dir"
	done
	shift $((3 + count))
	dir=$PWD
	mkdir "$root/old"
	cd "$root"
	pivot_root . old
	hash -r
	umount --lazy /old
	cd "$dir" 2>/dev/null || cd /
	export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	unset TMPDIR
	exec bash "$self" serve "$@"
}

active() { [[ $(virsh -q -c qemu:///system net-info default 2>/dev/null) =~ Active:\ *yes ]]; }

# start_daemons: those that the tree has.
start_daemons() {
	local name path deadline=$((SECONDS + 60))
	mkdir -p /run/lock /run/libvirt /var/log/lab
	for name in virtlogd virtnetworkd virtqemud libvirtd; do
		path=/usr/sbin/$name
		[ ! -e "$path" ] || (cd / && exec "$path" </dev/null >"/var/log/lab/$name.out" 2>&1) &
	done
	[ -e /usr/bin/virsh ] || return 0
	until active; do
		[ "$SECONDS" -lt "$deadline" ] || die "no daemon, or no network default: $(tail -n 12 /var/log/lab/*.out)"
		sleep 0.1
	done
}

# serve CMD...: runs inside. What is left of the daemons and their guests is killed at the end.
serve() {
	local pid code
	ip link set lo up 2>/dev/null || true
	trap 'kill -KILL -1 2>/dev/null || true' EXIT
	start_daemons
	"$@" <&0 &
	pid=$!
	trap 'kill -TERM "$pid" 2>/dev/null || true' TERM INT
	while :; do
		code=0
		wait "$pid" || code=$?
		kill -0 "$pid" 2>/dev/null || break
	done
	exit "$code"
}

# run [--bind DIR]... CMD...: all of it dies with this process, whatever ends that.
run() {
	local dirs=() pid first code
	while [ "${1:-}" = --bind ]; do
		dirs+=("$(realpath -e "$2")")
		shift 2
	done
	[ $# -gt 0 ] || die "usage: see the top of $self"
	need_tree
	work=$(mktemp -d)
	trap 'rm -rf --one-file-system "$work"' EXIT
	mkdir "$work/mnt"
	export GOCACHE=${GOCACHE:-${HOME:-/root}/.cache/go-build}
	(cd "$here" && PATH=$PATH:/usr/local/go/bin go build -buildvcs=false -o "$work/reaper" ./reaper) ||
		die "build ./reaper: see $here/setup.sh"
	setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --propagation private -- \
		"$work/reaper" bash "$self" inside "$tree" "$work/mnt" "${#dirs[@]}" "${dirs[@]}" "$@" <&0 &
	pid=$!
	# unshare itself is deaf to these; its child, the reaper, passes them on.
	trap 'read -r first <"/proc/$pid/task/$pid/children" && kill -TERM "$first" || true' TERM INT
	while :; do
		code=0
		wait "$pid" || code=$?
		kill -0 "$pid" 2>/dev/null || break
	done
	exit "$code"
}

main() {
	local verb=${1:-}
	[ $# -ge 1 ] || die "usage: see the top of $self"
	[ "$(id -u)" = 0 ] || die "needs root"
	shift
	case $verb in
	tree | run)
		release=${1:-}
		[[ $release =~ ^[a-z]+$ ]] || die "usage: see the top of $self"
		shift
		;;
	esac
	case $verb in
	tree) need_tree && echo "$tree" ;;
	run | inside | serve | daemons | compile_daemons) "$verb" "$@" ;;
	*) die "unknown verb $verb; see the top of $self" ;;
	esac
}

main "$@"
