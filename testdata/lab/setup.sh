#!/usr/bin/env bash
# setup.sh: install what building and testing need on Debian 12, and only what is missing.
#
# usage: setup.sh [--packages-for LANE...]
#   lanes: build unit demo-test driver web libvirtd versions package guest     without a lane: all of them
#   libvirtd needs build, guest and versions need libvirtd; these are included
#
# One line is printed for each thing done, none when there was nothing to do. It installs packages,
# makes the system user and group egress-hostagent (where libvirtd is installed), and sees to a Go that
# can build this module. Who is not root is told what is missing. No service is started by it: those of
# the packages stay as the distribution enables them, for the next boot.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
agent=egress-hostagent
home=/var/lib/egress-hostagent
policy=/usr/sbin/policy-rc.d
updated=

say() { printf 'setup: %s\n' "$*"; }
die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

# packages_of LANE: one a line, with those of the lanes it stands on.
packages_of() {
	case $1 in
	build) printf '%s\n' binutils ca-certificates gcc git libc6-dev libvirt-dev make pkg-config ;;
	unit) packages_of build && printf '%s\n' busybox genisoimage python3 qemu-utils shellcheck util-linux xorriso ;;
	demo-test) printf '%s\n' gcc libc6-dev libvirt0 qemu-utils ;;
	driver) packages_of build && printf '%s\n' qemu-utils ;;
	web) packages_of driver && printf '%s\n' curl nginx-light ;;
	libvirtd) packages_of driver && printf '%s\n' dnsmasq-base e2fsprogs iproute2 iptables \
		libvirt-clients libvirt-daemon-config-nwfilter libvirt-daemon-system procps qemu-system-x86 util-linux ;;
	versions) packages_of libvirtd && printf '%s\n' debian-archive-keyring mmdebstrap ;;
	package) packages_of unit && printf '%s\n' debian-archive-keyring lintian man-db mmdebstrap rpm rpmlint systemd-container ;;
	guest) packages_of libvirtd && printf '%s\n' curl debian-archive-keyring e2fsprogs extlinux fdisk \
		genisoimage mmdebstrap syslinux-common ;;
	*) die "unknown lane $1; see the top of $0" ;;
	esac
}

# missing PACKAGE...: those not installed.
missing() {
	local have
	have=$(dpkg-query --show --showformat '${db:Status-Status} ${binary:Package}\n' "$@" 2>/dev/null |
		sed -n 's/^installed \([^:]*\).*/\1/p') || true
	printf '%s\n' "$@" | grep -vxF "${have:-none}" || true
}

is_root() { [ "$(id -u)" = 0 ]; }

# apt ARG...: its output is shown only when it fails.
apt() {
	local log
	log=$(mktemp)
	if ! DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

update() {
	[ -z "$updated" ] || return 0
	say "updating the package lists"
	# A source of the machine's own that does not answer is no reason to stop: the install will tell.
	apt update || true
	updated=1
}

# install_packages PACKAGE...: with services held back, as policy-rc.d is meant for.
install_packages() {
	is_root || die "these packages are missing; as root: apt-get install $*"
	update
	say "installing $*"
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 0755 "$policy"
	fi
	apt install --yes --no-install-recommends "$@" || die "could not install these packages: try apt-get install $*"
}

need_packages() {
	local lane wanted
	for lane in "$@"; do packages_of "$lane" >/dev/null; done
	command -v apt-get >/dev/null || die "knows Debian only; elsewhere install what packages_of in $0 names"
	mapfile -t wanted < <(for lane in "$@"; do packages_of "$lane"; done | sort -u)
	mapfile -t wanted < <(missing "${wanted[@]}")
	[ "${#wanted[@]}" = 0 ] || install_packages "${wanted[@]}"
}

# need_user: as the package makes it. libvirt's group exists once its daemon is installed.
need_user() {
	{ is_root && getent group libvirt >/dev/null; } || return 0
	if ! getent passwd "$agent" >/dev/null; then
		say "making the system user $agent"
		useradd --system --user-group --groups libvirt --home-dir "$home" --no-create-home \
			--shell /usr/sbin/nologin "$agent"
	elif [[ " $(id -nG "$agent") " != *" libvirt "* ]]; then
		say "adding the user $agent to the group libvirt"
		usermod --append --groups libvirt "$agent"
	fi
	if [ ! -d "$home" ]; then
		say "making $home"
		install -d -o "$agent" -g "$agent" -m 0750 "$home"
	fi
}

# go_builds: whether the go on PATH can work on this module, by itself or by fetching the toolchain it asks for.
go_builds() { command -v go >/dev/null && (cd "$here" && go list -m >/dev/null 2>&1); }

# backports: installs golang-go from the backports of the machine's own mirror and release, which the
# machine's sources need not name.
backports() {
	local target uri codename list
	# shellcheck disable=SC2016 # the names are apt's
	target=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		grep -E ' (bookworm|trixie)$' | head -n 1)
	[ -n "$target" ] || return 1
	read -r uri codename <<<"$target"
	list=$(mktemp)
	cat /etc/apt/sources.list >"$list" 2>/dev/null || true
	echo "deb $uri $codename-backports main" >>"$list"
	say "installing golang-go from $codename-backports"
	apt -o Dir::Etc::sourcelist="$list" update &&
		apt -o Dir::Etc::sourcelist="$list" install --yes --no-install-recommends \
			--target-release "$codename-backports" golang-go
	rm -f "$list"
}

# distribution_go: whether there is no go but what the distribution may bring.
distribution_go() {
	local found
	found=$(command -v go) || return 0
	dpkg-query --search "$(readlink -f "$found")" >/dev/null 2>&1
}

need_go() {
	local wanted
	if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
		echo "setup: Go is in /usr/local/go/bin, which is not on PATH: add it" >&2
		PATH=$PATH:/usr/local/go/bin
	fi
	if go_builds; then return; fi
	wanted=$(sed -n 's/^go //p' "$here/../../go.mod")
	if is_root && distribution_go; then
		backports || say "no golang-go to be had from backports"
		hash -r
		if go_builds; then return; fi
	fi
	command -v go >/dev/null ||
		die "Go is missing: install Go $wanted into /usr/local/go, then run this again"
	die "$(command -v go) ($(GOTOOLCHAIN=local go env GOVERSION)) cannot build this module, which asks for Go $wanted:
setup: let it fetch that by itself (go env -w GOTOOLCHAIN=auto; it needs the module proxy, or GOPROXY set to yours),
setup: or install it into /usr/local/go and put /usr/local/go/bin first on PATH. It says:
$(cd "$here" && go list -m 2>&1)"
}

main() {
	local lanes=(unit web guest versions package)
	if [ $# -gt 0 ]; then
		if [ "$1" != --packages-for ] || [ $# = 1 ]; then die "usage: $0 [--packages-for LANE...]"; fi
		lanes=("${@:2}")
	fi
	need_packages "${lanes[@]}"
	need_user
	need_go
}

main "$@"
