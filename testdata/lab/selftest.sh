#!/usr/bin/env bash
# selftest.sh: prove the lab by hand, without the agent: an image, a private libvirtd, one guest whose
# cloud-init installs squid and the guest agent without any network, and a request through that proxy.
#
# usage, as root: selftest.sh
#
# When a guest test fails this tells whether the lab or the agent is at fault. It prints what it did
# with the time each step took, checks the file owners the agent relies on, and leaves nothing behind.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
patience=${EGRESS_HOSTAGENT_PATIENCE:-600}
lab=$(mktemp -d /tmp/egress-lab-selftest.XXXXXX)
tree=/var/lib/libvirt/images/egress
guest=egress-selftest
url=http://connectivity.example:8204/generate_204
trap 'finish' EXIT

say() { printf 'selftest: %4ds %s\n' "$SECONDS" "$*"; }
die() {
	say "FAILED: $*"
	exit 1
}
inside() { "$here/private-libvirtd.sh" join "$lab" "$@"; }
agent() { "$here/private-libvirtd.sh" user "$lab" "$@"; }
virsh() { inside virsh --quiet --connect qemu:///system "$@"; }

finish() {
	local code=$?
	[ "$code" = 0 ] || tail -n 15 "$lab/lib/images/egress/console/$guest.log" 2>/dev/null || true
	"$here/private-libvirtd.sh" stop "$lab"
	[ "$code" != 0 ] || say "all stopped and removed"
}

# wait_for WHAT CMD...: until the command succeeds.
wait_for() {
	local what=$1 deadline=$((SECONDS + patience))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || die "no $what after $patience seconds"
		sleep 1
	done
	say "$what"
}

# make_files IMAGE: base, overlay, seed and console log, by the agent's user and with its modes.
make_files() {
	cp "$1" "$lab/home/image.qcow2"
	chmod 0444 "$lab/home/image.qcow2"
	# shellcheck disable=SC2016 # expanded by the shell inside
	agent sh -euc '
		cd "$1"
		# The set-group-id bit is inherited; a chmod would lose it, as the user is not in that group.
		umask 0067 && mkdir base disk seed console
		umask 0007
		cp "$HOME/image.qcow2" base/base.qcow2 && chmod 0440 base/base.qcow2
		qemu-img create -q -f qcow2 -F qcow2 -b "$1/base/base.qcow2" disk/disk.qcow2 4G && chmod 0660 disk/disk.qcow2
		: >"console/$2.log" && chmod 0640 "console/$2.log"
		mkdir "$HOME/seed" && cd "$HOME/seed"
		printf "{\"instance-id\": \"%s\", \"local-hostname\": \"%s\"}" "$2-1" "$2" >meta-data
		cat >user-data <<-END
			#cloud-config
			packages: [squid]
			write_files:
			  - path: /etc/squid/conf.d/lab.conf
			    content: "http_access allow localnet"
		END
		cat >vendor-data <<-END
			#!/bin/sh
			apt-get update && apt-get install --yes qemu-guest-agent
			udevadm trigger --subsystem-match=virtio-ports --action=change
			systemctl start qemu-guest-agent.service
		END
		genisoimage -quiet -V cidata -J -R -o "$1/seed/seed.iso" . && chmod 0640 "$1/seed/seed.iso"
	' sh "$tree" "$guest"
}

# domain_xml: a virtio guest under emulation. Every source says that its owner is not libvirt's to change.
domain_xml() {
	local keep="<seclabel model='dac' relabel='no'/>"
	cat <<-END
		<domain type='qemu'>
		  <name>$guest</name><memory unit='MiB'>768</memory><vcpu>1</vcpu>
		  <os><type arch='x86_64' machine='q35'>hvm</type></os>
		  <features><acpi/></features><cpu mode='maximum'/>
		  <devices>
		    <disk type='file' device='disk'>
		      <driver name='qemu' type='qcow2'/><source file='$tree/disk/disk.qcow2'>$keep</source>
		      <backingStore type='file'><format type='qcow2'/><source file='$tree/base/base.qcow2'>$keep</source><backingStore/></backingStore>
		      <target dev='vda' bus='virtio'/>
		    </disk>
		    <disk type='file' device='disk'>
		      <driver name='qemu' type='raw'/><source file='$tree/seed/seed.iso'>$keep</source>
		      <target dev='vdb' bus='virtio'/><readonly/>
		    </disk>
		    <interface type='network'><source network='default'/><model type='virtio'/></interface>
		    <serial type='pty'><log file='$tree/console/$guest.log' append='on'/></serial>
		    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
		    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
		    <video><model type='none'/></video>
		  </devices>
		</domain>
	END
}

owners() { (cd "$lab/lib/images/egress" && stat -c '%A %U:%G %n' base/* disk/* seed/* console/*); }
agent_address() { virsh domifaddr "$guest" --source agent | awk '$1 == "eth0" && $3 == "ipv4" { print $4 }' | cut -d / -f 1 | grep .; }
lease_address() { virsh domifaddr "$guest" --source lease | grep ipv4; }
through_proxy() {
	[ "$(inside curl --silent --max-time 20 --output /dev/null --write-out '%{http_code}' --proxy "http://$address:3128" "$url")" = 204 ]
}

run_guest() {
	owners >"$lab/before"
	domain_xml >"$lab/domain.xml"
	virsh define "$lab/domain.xml"
	say "defined"
	virsh start "$guest"
	say "started"
	wait_for "an address by DHCP" lease_address
	wait_for "an answer of the guest agent" agent_address
	address=$(agent_address)
	wait_for "204 through squid at $address" through_proxy
	owners | diff "$lab/before" - || die "the running domain changed these owners or modes"
	agent head -c 1 "$tree/console/$guest.log" >/dev/null || die "the agent's user cannot read the console"
	virsh destroy "$guest"
	owners | diff "$lab/before" - || die "stopping the domain changed these owners or modes"
	virsh undefine "$guest"
	say "destroyed; owners and modes are as before"
}

main() {
	local image
	image=$("$here/guest-image.sh" | tail -n 1)
	say "image $image"
	"$here/private-libvirtd.sh" start "$lab"
	say "private libvirtd up"
	(cd "$here" && PATH=$PATH:/usr/local/go/bin go build -buildvcs=false -o "$lab/responder" ./responder)
	inside "$lab/responder" >"$lab/responder.log" &
	make_files "$image"
	say "files made"
	run_guest
	grep -c generate_204 "$lab/responder.log" | sed 's/^/selftest: requests seen by the responder: /'
}

main "$@"
