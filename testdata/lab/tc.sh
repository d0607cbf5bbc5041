#!/bin/sh
# tc.sh [CMD...]: lets libvirt limit traffic where the kernel has not what tc needs for it.
#
# For the inside of a lab, which has mount and network namespaces of its own: there tc is then a
# stand-in that does nothing, and all of libvirt's own is real. CMD is run after that.
set -eu

try() {
	tc qdisc add dev lab0 root handle 1: htb default 1 &&
		tc class add dev lab0 parent 1: classid 1:1 htb rate 1000kbps &&
		tc qdisc add dev lab0 parent 1:1 handle 2: sfq perturb 10 &&
		tc qdisc add dev lab0 ingress &&
		tc filter add dev lab0 parent ffff: protocol all u32 match u32 0 0 police rate 1000kbps burst 1000kb mtu 64kb drop flowid :1
}

ip link add lab0 type veth peer name lab1
if ! try >/dev/null 2>&1; then
	echo 'this kernel can not limit traffic: tc is a stand-in that does nothing' >&2
	printf '#!/bin/sh\nexit 0\n' >/run/lab-tc
	chmod 0755 /run/lab-tc
	mount --bind /run/lab-tc "$(realpath "$(command -v tc)")"
fi
ip link del lab0
if [ $# -gt 0 ]; then exec "$@"; fi
