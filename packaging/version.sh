#!/usr/bin/env bash
# version.sh: turn a version as git describes it into one that is legal in a deb and an rpm and sorts right.
#
# usage: version.sh VERSION
#   v1.2.3, 1.2.3        1.2.3
#   v1.3.0-rc1           1.3.0~rc1             before 1.3.0
#   v1.2.3-5-gabcdef0    1.2.3+5.gabcdef0      after 1.2.3, before 1.2.4
#   abcdef0              0.0.0+410.gabcdef0    no tag yet: before any release, by the number of commits
#   dev                  0.0.0+dev
# A tree with changes ends in .dirty.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=${1:?usage: version.sh VERSION}
dirty=
if [[ $version == *-dirty ]]; then
	version=${version%-dirty}
	dirty=dirty
fi
since=
if [[ $version =~ ^(.+)-([0-9]+)-(g[0-9a-f]+)$ ]]; then
	version=${BASH_REMATCH[1]}
	since=${BASH_REMATCH[2]}.${BASH_REMATCH[3]}
fi
if [[ $version =~ ^v?([0-9]+(\.[0-9]+)*)(-([0-9A-Za-z.]+))?$ && $version == *.* ]]; then
	version=${BASH_REMATCH[1]}${BASH_REMATCH[4]:+~${BASH_REMATCH[4]}}
elif [[ $version =~ ^[0-9a-f]{7,40}$ ]]; then
	since=$(git -C "$here" rev-list --count HEAD).g$version
	version=0.0.0
elif [[ $version == dev ]]; then
	version=0.0.0
	since=dev
else
	printf 'version.sh: %s is no version: want 1.2.3, or what "git describe --tags --always" prints\n' "$1" >&2
	exit 1
fi
extra=$since${dirty:+${since:+.}$dirty}
printf '%s\n' "$version${extra:++$extra}"
