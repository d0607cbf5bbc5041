#!/usr/bin/env bash
# setup.sh: install what building and testing need on Debian 12, and make the agent's user.
#
# usage, as root:  setup.sh [--packages-for LANE...]
#
# LANE is build, unit, demo-test, libvirtd or guest; without one, all. Only what is missing is
# installed; when nothing is missing nothing is said and nothing but looking is done. Not as root
# it says what is missing and fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
agent=egress-hostagent

packages_for() {
	case $1 in
	build) echo gcc libc6-dev pkg-config libvirt-dev binutils make git ;;
	unit) echo gcc libc6-dev qemu-utils genisoimage xorriso shellcheck busybox util-linux ;;
	demo-test) echo gcc libc6-dev libvirt0 qemu-utils ;;
	libvirtd) echo libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iptables iproute2 util-linux procps ;;
	guest) echo libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iptables iproute2 util-linux procps \
		mmdebstrap extlinux syslinux-common e2fsprogs fdisk genisoimage curl ca-certificates ;;
	*)
		echo "setup: there is no lane $1: build, unit, demo-test, libvirtd, guest" >&2
		exit 2
		;;
	esac
}

missing() {
	local want=$*
	# shellcheck disable=SC2086 # one word a package
	comm -23 <(printf '%s\n' $want | sort -u) \
		<(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | awk '$1 == "ii" { print $2 }' | sort -u)
}

install_packages() {
	local packages
	packages=$(missing "$@")
	[ -n "$packages" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		echo "setup: missing packages; as root: apt-get install" $packages >&2
		exit 1
	fi
	echo "setup: installing" $packages
	export DEBIAN_FRONTEND=noninteractive
	local log
	log=$(mktemp)
	# shellcheck disable=SC2086 # one word a package
	if ! {
		apt-get -q -o DPkg::Lock::Timeout=120 update &&
			apt-get -q -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends $packages
	} </dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		echo "setup: apt-get failed; the whole log is in $log" >&2
		exit 1
	fi
	rm -f "$log"
}

make_user() {
	if id "$agent" >/dev/null 2>&1; then
		[[ " $(id -nG "$agent") " == *" libvirt "* ]] || usermod --append --groups libvirt "$agent"
		return
	fi
	echo "setup: making the system user $agent"
	useradd --system --user-group --home-dir "/var/lib/$agent" --no-create-home \
		--shell /usr/sbin/nologin --groups libvirt "$agent"
}

# check_go: Go itself fetches the toolchain that go.mod asks for; it has to be 1.21 or newer to know how.
check_go() {
	local have
	PATH=$PATH:/usr/local/go/bin
	if have=$(go env GOVERSION 2>/dev/null) && [ "$(printf 'go1.21\n%s\n' "$have" | sort -V | head -n 1)" = go1.21 ]; then
		return
	fi
	echo "setup: Go ${have:-is missing}${have:+ is too old}; installing it from bookworm-backports"
	if [ "$(id -u)" = 0 ]; then
		local mirror
		mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
		echo "deb $mirror bookworm-backports main" >/etc/apt/sources.list.d/bookworm-backports.list
		apt-get -q -o DPkg::Lock::Timeout=120 update >/dev/null &&
			apt-get -q -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends -t bookworm-backports golang-go >/dev/null && return
	fi
	echo "setup: could not install Go; install Go 1.21 or newer and put it on PATH" >&2
	exit 1
}

main() {
	local lanes=(build unit libvirtd guest) packages="" lane
	if [ "${1:-}" = --packages-for ]; then
		shift
		lanes=("$@")
	elif [ $# -gt 0 ]; then
		echo "usage: $here/setup.sh [--packages-for LANE...]" >&2
		exit 2
	fi
	for lane in "${lanes[@]}"; do
		packages+=" $(packages_for "$lane")"
	done
	# shellcheck disable=SC2086 # one word a package
	install_packages $packages
	check_go
	case " ${lanes[*]} " in
	*" libvirtd "* | *" guest "*) make_user ;;
	esac
}

main "$@"
