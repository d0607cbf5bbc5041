#!/bin/sh
# prepare.sh TREE: settings for the packages that are installed after the essential ones.
set -eu
tree=$1

# The initrd carries what the disk needs and no more: it is read through the BIOS at each boot, slowly.
# customize.sh makes it, once; packages are told to leave it.
mkdir -p "$tree/etc/initramfs-tools/conf.d"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$tree/etc/initramfs-tools/modules"
printf 'MODULES=list\nCOMPRESS=zstd\nRESUME=none\nFSTYPE=ext4\n' >"$tree/etc/initramfs-tools/conf.d/lab"
printf 'update_initramfs=no\nbackup_initramfs=no\n' >"$tree/etc/initramfs-tools/update-initramfs.conf"

# These stay in the guest, for the packages it installs itself. (As options of mmdebstrap the
# exclusions would have it filter every package through a slow program of its own.)
cat >"$tree/etc/dpkg/dpkg.cfg.d/lab" <<-'END'
	force-unsafe-io
	path-exclude=/usr/share/doc/*
	path-exclude=/usr/share/i18n/charmaps/*
	path-exclude=/usr/share/i18n/locales/*
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/locale/*
	path-exclude=/usr/share/man/*
END

# Each Python package would start an interpreter to compile itself. customize.sh compiles all of them in one go.
chroot "$tree" dpkg-divert --quiet --local --rename --add /usr/bin/py3compile
ln -s true "$tree/usr/bin/py3compile"
