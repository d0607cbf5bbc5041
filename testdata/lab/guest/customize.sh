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
	# shellcheck disable=SC2046 # one word a package
	guest_apt $(echo "$names" | grep -vxE 'qemu-guest-agent|squid') >/dev/null
	mkdir -p "$repo/partial"
	guest_apt --download-only -o Dir::Cache::archives=/opt/lab-repo qemu-guest-agent squid >/dev/null
	rm -rf "$repo/partial" "$repo/lock"
	for file in "$repo"/*.deb; do
		# The name apt gave it has the version's colon escaped, which not every reader of URIs undoes.
		deb=$repo/$(dpkg-deb --field "$file" Package).deb
		mv "$file" "$deb"
		dpkg-deb --field "$deb"
		printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${deb##*/}" \
			"$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d ' ' -f 1)"
	done >"$repo/Packages"
	# Without a Release file apt tries each compressed form of Packages in turn, for seconds.
	printf 'Date: %s\nSHA256:\n %s %s Packages\n' "$(date -u -R)" \
		"$(sha256sum "$repo/Packages" | cut -d ' ' -f 1)" "$(stat -c %s "$repo/Packages")" >"$repo/Release"
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

# cloud-init looks for a seed and nowhere else, and leaves the package source alone. Its modules for
# ssh, locales and GRUB would only warn that the guest has none of these.
configure_cloud_init() {
	cat >"$tree/etc/cloud/cloud.cfg.d/90_lab.cfg" <<-'END'
		datasource_list: [NoCloud, None]
		apt: {preserve_sources_list: true}
	END
	sed -i -E '/^ - (ssh|ssh-import-id|ssh-authkey-fingerprints|set-passwords|keys-to-console|locale|grub-dpkg|byobu)$/d' \
		"$tree/etc/cloud/cloud.cfg"
}

configure_boot() {
	# Once, now that all is in place: prepare.sh has told packages to leave it.
	sed -i 's/^update_initramfs=.*/update_initramfs=yes/' "$tree/etc/initramfs-tools/update-initramfs.conf"
	chroot "$tree" update-initramfs -c -k all >/dev/null
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
		  APPEND root=LABEL=root ro console=ttyS0,115200 loglevel=5 mitigations=off net.ifnames=0
	END
	# Without this no service that a package brings would be started in the guest.
	rm -f "$tree/usr/sbin/policy-rc.d"
}

# What only a machine with a longer life needs. Under emulation each unit costs a part of a second.
mask_units() {
	for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer logrotate.timer \
		systemd-tmpfiles-clean.timer e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service \
		systemd-binfmt.service systemd-pcrphase.service systemd-pcrphase-sysinit.service systemd-pstore.service \
		systemd-update-utmp.service systemd-update-utmp-runlevel.service modprobe@.service dev-hugepages.mount \
		dev-mqueue.mount proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount sys-kernel-config.mount \
		sys-kernel-debug.mount sys-kernel-tracing.mount; do
		ln -sf /dev/null "$tree/etc/systemd/system/$unit"
	done
	ln -sf /lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
	# Generators run at boot and again for each package with a service. With one data source to choose
	# from, that of cloud-init only ever says yes, so its target is simply wanted.
	mkdir -p "$tree/etc/systemd/system-generators" "$tree/etc/systemd/system/multi-user.target.wants"
	for file in "$tree"/lib/systemd/system-generators/*; do
		case ${file##*/} in
		netplan | systemd-fstab-generator) ;;
		*) ln -s /dev/null "$tree/etc/systemd/system-generators/${file##*/}" ;;
		esac
	done
	ln -s /lib/systemd/system/cloud-init.target "$tree/etc/systemd/system/multi-user.target.wants/"
	rm -rf "$tree/var/log/journal"
}

# Drivers that udev would find by the kind of processor. Their self tests take an emulated one ten seconds.
blacklist_drivers() {
	for driver in kvm_amd kvm_intel aesni_intel ghash_clmulni_intel crc32_pclmul crct10dif_pclmul sha512_ssse3 \
		polyval_clmulni powernow_k8 acpi_cpufreq intel_rapl_msr intel_rapl_common psmouse pcspkr; do
		echo "blacklist $driver"
	done >"$tree/etc/modprobe.d/lab.conf"
}

compile_python
make_repository
rm -rf "$tree"/usr/share/doc/* "$tree"/usr/share/info/* "$tree"/usr/share/locale/* "$tree"/usr/share/man/*
configure_cloud_init
configure_boot
mask_units
blacklist_drivers
