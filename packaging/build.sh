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
PACKAGE_ARCH=$(go env GOARCH)
export PACKAGE_VERSION PACKAGE_ARCH SOURCE_DATE_EPOCH
# What is built from here on runs here.
GOOS='' GOARCH=$(go env GOHOSTARCH)
export GOOS GOARCH
[ "$GOARCH" = "$PACKAGE_ARCH" ] || unset CC
work=build/package

changelog() {
	local date
	date=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	sed -e "s/@VERSION@/$PACKAGE_VERSION-1/" -e "s/@DATE@/$date/" packaging/changelog.yaml >"$work/changelog.yaml"
}

# tool: the agent with the command that writes man pages, for this machine.
tool() {
	go build -tags libvirt_dlopen,manpages -trimpath -buildmode=pie -buildvcs=false -o "$work/tool" ./cmd/egress-hostagent
}

# packed FILE...: compressed in place, with neither name nor time within.
packed() { gzip --best --no-name "$@"; }

pages() {
	mkdir -p "$work/man8" "$work/man5"
	"$work/tool" manpages "$work/man8"
	mv "$work"/man8/*.5 "$work/man5/"
	packed "$work"/man8/*.8 "$work"/man5/*.5
}

completions() {
	local shell
	for shell in bash zsh fish; do "$work/tool" completion "$shell" >"$work/completion.$shell"; done
}

# doc FILE DIRECTORY: its entries. There are two, since what is of type doc nfpm leaves out of a deb, and
# takes no pattern for.
doc() {
	printf '  - {src: %s, dst: %s, packager: deb, file_info: {mode: 0644}}\n' "$1" "$2/${1##*/}"
	printf '  - {src: %s, dst: %s, packager: rpm, type: doc, file_info: {mode: 0644}}\n' "$1" "$2/${1##*/}"
}

contents() {
	local file
	for file in "$work"/man8/*; do doc "$file" /usr/share/man/man8; done
	for file in "$work"/man5/*; do doc "$file" /usr/share/man/man5; done
	for file in testdata/specs/*; do doc "$file" /usr/share/doc/egress-hostagent/examples; done
}

umask 022
rm -rf "$work"
mkdir -p "$work" "$dist"
changelog
tool
pages
completions
contents >"$work/contents"
sed -e "/# DOCS:/r $work/contents" -e '/# DOCS:/d' packaging/nfpm.yaml >"$work/nfpm.yaml"
rm -f "$dist"/egress-hostagent[_-]*."deb" "$dist"/egress-hostagent-*.rpm
for packager in deb rpm; do
	go tool -modfile=packaging/tools/go.mod nfpm package --config "$work/nfpm.yaml" --packager "$packager" --target "$dist/"
done
