#!/bin/sh
# customize.sh TREE: turn a Debian tree into the lab's guest. mmdebstrap runs it as its last hook.
set -eu
tree=$1

# The guest's packages: squid and the guest agent with all they need, in a repository of the guest's own.
# What they pull in is installed now (perl alone would take a guest under emulation half a minute);
# the packages themselves are left to cloud-init and to the agent's vendor script, as in the field.
make_repository() {
	# systemd-resolved has put a link to its own file there, which leads nowhere while it does not run.
	rm -f "$tree/etc/resolv.conf"
	cat /etc/resolv.conf >"$tree/etc/resolv.conf"
	repo=$tree/opt/lab-repo
	names=$(guest_apt --simulate qemu-guest-agent squid | sed -n 's/^Inst \([^ ]*\).*/\1/p')
	# shellcheck disable=SC2086 # one word a package
	guest_apt $(echo "$names" | grep -vE '^(qemu-guest-agent|squid.*)$')
	mkdir -p "$repo/partial"
	guest_apt --download-only -o Dir::Cache::archives=/opt/lab-repo qemu-guest-agent squid
	rm -rf "$repo/partial" "$repo/lock"
	for file in "$repo"/*.deb; do
		# The name apt gave it has the version's colon escaped, which not every reader of URIs undoes.
		deb=$repo/$(dpkg-deb --field "$file" Package).deb
		mv "$file" "$deb"
		dpkg-deb --field "$deb"
		printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${deb##*/}" \
			"$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d ' ' -f 1)"
	done >"$repo/Packages"
	rm -f "$tree"/etc/apt/sources.list.d/*
	echo 'deb [trusted=yes] file:/opt/lab-repo ./' >"$tree/etc/apt/sources.list"
	printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\n' >"$tree/etc/apt/apt.conf.d/90lab"
}

guest_apt() {
	DEBIAN_FRONTEND=noninteractive chroot "$tree" apt-get install --yes -qq --no-install-recommends "$@" </dev/null
}

compile_python() {
	rm "$tree/usr/bin/py3compile"
	chroot "$tree" dpkg-divert --quiet --local --rename --remove /usr/bin/py3compile
	chroot "$tree" python3 -m compileall -q -j 0 /usr/lib/python3/dist-packages /usr/share/netplan
}

# cloud-init looks for a seed and nowhere else, and leaves the package source alone.
configure_cloud_init() {
	cat >"$tree/etc/cloud/cloud.cfg.d/90_lab.cfg" <<-'END'
		datasource_list: [NoCloud, None]
		apt: {preserve_sources_list: true}
		# There is no ssh here, and no locale but C.
		ssh_deletekeys: false
		ssh_genkeytypes: []
		locale: false
	END
}

configure_boot() {
	# Once, now that all is in place: prepare.sh has told packages to leave it.
	sed -i 's/^update_initramfs=.*/update_initramfs=yes/' "$tree/etc/initramfs-tools/update-initramfs.conf"
	chroot "$tree" update-initramfs -c -k all
	kernel=$(basename "$tree"/boot/vmlinuz-*)
	ln -sf "boot/initrd.img-${kernel#vmlinuz-}" "$tree/initrd.img"
	echo 'LABEL=root / ext4 errors=remount-ro 0 1' >"$tree/etc/fstab"
	echo localhost >"$tree/etc/hostname"
	printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$tree/etc/hosts"
	: >"$tree/etc/machine-id"
	# The first boot would only find out that nothing in /etc and /var is out of date.
	touch "$tree/etc/.updated" "$tree/var/.updated"
	ln -sf ../run/systemd/resolve/stub-resolv.conf "$tree/etc/resolv.conf"
	mkdir -p "$tree/boot/extlinux"
	cat >"$tree/boot/extlinux/extlinux.conf" <<-'END'
		SERIAL 0 115200
		DEFAULT linux
		PROMPT 0
		TIMEOUT 0
		LABEL linux
		  LINUX /vmlinuz
		  INITRD /initrd.img
		  APPEND root=LABEL=root ro console=tty0 console=ttyS0,115200 net.ifnames=0
	END
	# Without this no service that a package brings would be started in the guest.
	rm -f "$tree/usr/sbin/policy-rc.d"
}

# Work that only a machine with a life needs; under emulation each unit costs a part of a second.
mask_units() {
	for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
		fstrim.timer logrotate.timer getty@tty1.service serial-getty@ttyS0.service systemd-pcrphase.service \
		systemd-pcrphase-sysinit.service; do
		ln -sf /dev/null "$tree/etc/systemd/system/$unit"
	done
}

compile_python
make_repository
rm -rf "$tree"/usr/share/doc/* "$tree"/usr/share/info/* "$tree"/usr/share/locale/* "$tree"/usr/share/man/*
configure_cloud_init
configure_boot
mask_units
