#!/usr/bin/env bash
# fetch.sh: unpack this release's cloud-init and what it imports into build/cloudinit, without installing it.
#
# usage: fetch.sh
#   prints the directory to put on PYTHONPATH; does nothing when it is there already
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
tree=$root/build/cloudinit
packages=(cloud-init python3-certifi python3-chardet python3-configobj python3-idna python3-jinja2 python3-json-pointer
	python3-jsonpatch python3-markupsafe python3-oauthlib python3-requests python3-six python3-urllib3 python3-yaml)

die() {
	echo "fetch: $*" >&2
	exit 1
}

if [ ! -d "$tree/usr/lib/python3/dist-packages/cloudinit" ]; then
	command -v apt-get >/dev/null || die "apt-get is not here: this needs Debian"
	new=$(mktemp -d)
	trap 'rm -rf "$new"' EXIT
	cd "$new"
	log=$(apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" 2>&1) ||
		die "could not download: try apt-get update. $log"
	for deb in *.deb; do dpkg --extract "$deb" "$new/tree"; done
	mkdir -p "$root/build"
	rm -rf "$tree"
	mv "$new/tree" "$tree"
fi
echo "$tree/usr/lib/python3/dist-packages"
