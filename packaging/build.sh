#!/usr/bin/env bash
# build.sh: make the deb and the rpm of build/egress-hostagent for the architecture Go builds for.
#
# usage: build.sh VERSION DISTDIR
# SOURCE_DATE_EPOCH is the time of everything in the packages; by default that of the last commit.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
PACKAGE_VERSION=$(packaging/version.sh "$1")
dist=$2
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
GOARCH=$(go env GOARCH)
export PACKAGE_VERSION SOURCE_DATE_EPOCH GOARCH
work=build/package

changelog() {
	local date
	date=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	sed -e "s/@VERSION@/$PACKAGE_VERSION-1/" -e "s/@DATE@/$date/" packaging/changelog.yaml >"$work/changelog.yaml"
}

umask 022
rm -rf "$work"
mkdir -p "$work" "$dist"
changelog
rm -f "$dist"/egress-hostagent[_-]*."deb" "$dist"/egress-hostagent-*.rpm
for packager in deb rpm; do
	go tool -modfile=packaging/tools/go.mod nfpm package --config packaging/nfpm.yaml --packager "$packager" --target "$dist/"
done
