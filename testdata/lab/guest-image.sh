#!/usr/bin/env bash
# guest-image.sh: build, or reuse, the bootable Debian 12 guest of the lab.
#
# usage: guest-image.sh        as root; needs the packages of `setup.sh --packages-for guest`
#
# The last line on standard output is the path of a qcow2 image; progress goes to standard error.
# The image's name holds a hash of its recipe (this file and guest/), so an edit makes a new image
# and nothing ever replaces one in use. It is kept in $EGRESS_HOSTAGENT_CACHE, by default
# /var/cache/egress-hostagent-lab; images no build has asked for in 14 days are removed from there.
#
# The guest needs no network: its only package source is a repository inside it (guest/customize.sh).
# It boots by BIOS from a disk with one partition, as cloud images do, so that the boot loader, the
# growing of the partition and of its file system are as in the field. It has no password and no ssh.
#
# $EGRESS_HOSTAGENT_MIRROR names a Debian mirror to use in place of mmdebstrap's default.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${EGRESS_HOSTAGENT_CACHE:-/var/cache/egress-hostagent-lab}
suite=bookworm
disk_mib=1024
packages=(
	linux-image-cloud-amd64 initramfs-tools zstd systemd-sysv udev dbus kmod
	# minbase leaves out the back end of Python's cryptography; without it cloud-init stays unconfigured.
	cloud-init python3-cffi-backend
	cloud-guest-utils fdisk e2fsprogs
	netplan.io systemd-resolved iproute2 ca-certificates
)

say() { printf 'guest-image: %3ds %s\n' "$SECONDS" "$*" >&2; }
die() {
	printf 'guest-image: %s\n' "$*" >&2
	exit 1
}

recipe_hash() {
	(cd "$here" && LC_ALL=C sha256sum guest-image.sh guest/*) | sha256sum | cut -c 1-16
}

check_tools() {
	local tool
	[ "$(id -u)" = 0 ] || die "needs root: mmdebstrap and the boot loader's installer mount file systems"
	for tool in mmdebstrap mkfs.ext4 sfdisk extlinux qemu-img flock; do
		command -v "$tool" >/dev/null || die "$tool is missing: run $here/setup.sh --packages-for guest"
	done
}

# progress: mmdebstrap's own lines, with the time; what packages say is in the log.
progress() {
	local line
	while IFS= read -r line; do
		case $line in I:* | E:*) say "${line#I: }" ;; esac
	done
}

# bootstrap DIR: the guest's file tree. INITRD=No goes with guest/prepare.sh: the initrd is made once, at the end.
bootstrap() {
	local include
	include=$(IFS=,; echo "${packages[*]}")
	INITRD=No mmdebstrap --mode=root --variant=minbase --include="$include" \
		--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --aptopt='APT::Sandbox::User "root"' \
		--dpkgopt='force-confold' --dpkgopt='force-unsafe-io' \
		--essential-hook="$here/guest/prepare.sh \"\$1\"" \
		--customize-hook="$here/guest/customize.sh \"\$1\"" \
		"$suite" "$1" ${EGRESS_HOSTAGENT_MIRROR:+"$EGRESS_HOSTAGENT_MIRROR"} 2>&1 | tee "$work/log" | progress ||
		die "the tree could not be built: $(tail -n 30 "$work/log")"
}

# make_disk TREE RAW: a disk with a DOS label and one bootable ext4 partition, from sector 2048 on.
# syslinux reads neither 64-bit nor checksummed file systems.
make_disk() {
	local tree=$1 raw=$2
	truncate --size "${disk_mib}M" "$raw"
	echo 'start=2048, type=83, bootable' | sfdisk --quiet --no-reread "$raw"
	dd if=/usr/lib/EXTLINUX/mbr.bin of="$raw" conv=notrunc bs=440 count=1 status=none
	mkfs.ext4 -q -F -L root -O '^64bit,^metadata_csum' -m 0 -d "$tree" \
		-E offset=$((2048 * 512)),lazy_itable_init=0,root_owner=0:0 "$raw" $(((disk_mib - 1) * 1024))k
}

# install_bootloader RAW: in a mount namespace of its own, which lets go of the loop device whatever happens.
install_bootloader() {
	mkdir "$work/mnt"
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --propagation private sh -euc '
		mount -t ext4 -o loop,offset=$((2048 * 512)) "$1" "$2"
		extlinux --install "$2/boot/extlinux"
	' sh "$1" "$work/mnt" >"$work/extlinux.log" 2>&1 || die "install the boot loader: $(cat "$work/extlinux.log")"
}

build() {
	say "building $image, which happens once"
	work=$(mktemp -d "$cache/build.XXXXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	bootstrap "$work/tree"
	say "file tree done: $(du -sm "$work/tree" | cut -f 1) MiB"
	make_disk "$work/tree" "$work/raw"
	install_bootloader "$work/raw"
	say "disk done, compressing"
	qemu-img convert -q -O qcow2 -c -W -m 8 "$work/raw" "$work/image"
	chmod 0644 "$work/image"
	sync "$work/image"
	mv "$work/image" "$image"
	say "done: $(($(stat -c %s "$image") / 1048576)) MiB"
}

# prune: old recipes' images, and what killed builds left behind. The caller holds the lock.
prune() {
	local stamp
	rm -rf --one-file-system "$cache"/build.????????
	find "$cache" -maxdepth 1 -name 'guest-*.used' -mtime +14 | while read -r stamp; do
		say "removing ${stamp%.used}.qcow2, not used for 14 days"
		rm -f "${stamp%.used}.qcow2" "$stamp"
	done
}

main() {
	local hash
	[ $# = 0 ] || die "takes no arguments; see the top of $0"
	hash=$(recipe_hash)
	image=$cache/guest-$hash.qcow2
	if [ ! -e "$image" ]; then
		check_tools
		mkdir -p "$cache"
		exec 9>"$cache/lock"
		flock --nonblock 9 || { say "another build is running, waiting for it" && flock 9; }
		prune
		[ -e "$image" ] || build
	fi
	touch "$cache/guest-$hash.used"
	echo "$image"
}

main "$@"
