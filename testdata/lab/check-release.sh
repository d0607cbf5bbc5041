#!/usr/bin/env bash
# check-release.sh: build the release binary as "make build" does and see that
# it leans on nothing but libc, and that what needs no libvirt works without it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG=/bin/false go build -tags libvirt_dlopen -trimpath -o "$dir/agent" ./cmd/egress-hostagent
needed=$(objdump -p "$dir/agent" | awk '$1 == "NEEDED" { print $2 }' | sort | tr '\n' ' ')
case $needed in
"libc.so.6 ") ;;
*)
	echo "the binary needs: $needed"
	exit 1
	;;
esac
# A library path of empty files stands for a machine without libvirt.
mkdir "$dir/none"
for lib in libvirt.so.0 libvirt-qemu.so.0 libvirt-lxc.so.0 libvirt-admin.so.0; do : >"$dir/none/$lib"; done
cp testdata/specs/squid.toml testdata/specs/squid.yaml "$dir/" 2>/dev/null || cp testdata/specs/squid.toml "$dir/"
export LD_LIBRARY_PATH=$dir/none
"$dir/agent" version
"$dir/agent" -c testdata/specs/config.toml validate "$dir/squid.toml"
