#!/usr/bin/env bash
# bench.sh: the agent's work beside the bare work it can not do without, each
# pair measured on this machine in this run; the figure that counts is the
# ratio. BENCHTIME sets the time of each (default 3s; 1x is a smoke run).
set -euo pipefail
time=${BENCHTIME:-3s}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

run() { # package, benchmark
	go test -run='^$' -bench="^$2\$" -benchmem -benchtime="$time" "$1" | tee -a "$out" | grep -E '^(Benchmark|---|FAIL|panic)' || {
		cat "$out"
		exit 1
	}
}
# metric BENCHMARK UNIT: the figure before that unit.
metric() { awk -v b="^$1(-|$)" -v u="$2" '$1 ~ b { for (i = 2; i <= NF; i++) if ($i == u) v = $(i - 1) } END { print v }' "$out"; }
row() { # what, figure, bare, unit
	if [ -z "$2" ] || [ -z "$3" ]; then
		echo "bench: no figure for: $1" >&2
		exit 1
	fi
	awk -v w="$1" -v a="$2" -v b="$3" -v u="$4" 'BEGIN { printf "%-58s %10.0f %10.0f %-5s %6.2f\n", w, a, b, u, a / b }'
}

run ./seed BenchmarkBuild
run ./seed BenchmarkGenisoimage
run ./hostagent/virt BenchmarkListDomains
run ./cmd/egress-hostagent BenchmarkNoopPass
run ./hostagent/state BenchmarkSaveOneOf1000
run ./hostagent/state BenchmarkBareSave
run ./hostagent/state BenchmarkOpen1000
run ./hostagent/state BenchmarkBareRead
echo
printf '%-58s %10s %10s %-5s %6s\n' work agent bare unit ratio
row 'seed image, against genisoimage as a process' "$(metric BenchmarkBuild ns/op)" "$(metric BenchmarkGenisoimage ns/op)" ns
row 'list 1,000 domains, against ListAllDomains+GetMetadata' "$(metric BenchmarkListDomains µs/list)" "$(metric BenchmarkListDomains µs/bare)" µs
row 'state: save one entry of 1,000, against write, sync, rename' "$(metric BenchmarkSaveOneOf1000 ns/op)" "$(metric BenchmarkBareSave ns/op)" ns
row 'state: open 1,000 entries, against reading 1,000 files' "$(metric BenchmarkOpen1000 ns/op)" "$(metric BenchmarkBareRead ns/op)" ns
row 'no-op pass, 1,000 proxies, against the same bare loop' "$(metric BenchmarkNoopPass µs/pass)" "$(metric BenchmarkListDomains µs/bare)" µs
