#!/usr/bin/env bash
# fuzz.sh TIME: run each fuzz target of the module for TIME.
set -euo pipefail
time=${1:-30s}
for file in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "== $target in $(dirname "$file") for $time"
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" "./$(dirname "$file")"
	done
done
