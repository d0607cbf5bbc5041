# Targets a contributor types. "make help" lists them.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILT   := $(shell git log -1 --format=%cI 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.builtAt=$(BUILT) -extldflags=-Wl,-z,relro,-z,now
LANES   := go run ./testdata/lab/lanes
FUZZTIME ?= 30s

.PHONY: help build setup check test test-unit test-sim test-driver test-web test-libvirtd test-versions test-guest soak bench demo fuzz clean test-package bench-fleet packages

help: ## list the targets
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-14s %s\n", $$1, $$2 }'

build: ## the release binary, build/egress-hostagent: needs only libc, finds libvirt at run time
	go build -tags libvirt_dlopen -trimpath -buildmode=pie -buildvcs=false -ldflags "$(LDFLAGS)" -o build/egress-hostagent ./cmd/egress-hostagent

packages: build ## deb and rpm of the release binary for this architecture, in dist; VERSION=1.2.3 names another version
	packaging/build.sh "$(VERSION)" dist

setup: ## install what building and testing need, and make the agent's user (as root)
	testdata/lab/setup.sh

demo: ## a proxy from spec to request and away again; DRIVER=test: in seconds, without root and VM
	@if [ "$(DRIVER)" = test ]; then testdata/lab/setup.sh --packages-for demo-test; else testdata/lab/setup.sh; fi
	@go run ./testdata/lab/demo

check: ## formatting, vet, staticcheck, builds
	@$(LANES) check

test-unit: ## everything without cgo, with the race detector
	@$(LANES) test-unit

test-sim: ## random faults on the deterministic core; SIM_TIME=2m, or SIM_SEED=n to replay one
	@$(LANES) test-sim

test-driver: ## whole agents and the link to libvirt on libvirt's test driver
	@$(LANES) test-driver

test-web: ## the manifest from a real nginx with client certificates, and through faults
	@$(LANES) test-web

test-libvirtd: ## the agent through everything a private libvirtd does, in ten minutes (as root)
	@$(LANES) test-libvirtd

test-versions: ## one binary here and on a newer libvirt with modular daemons (as root)
	@$(LANES) test-versions

test-package: ## deb and rpm: what they hold, and their life where systemd is PID 1 (as root)
	@$(LANES) test-package

test-guest: ## a real guest on a private libvirtd (as root)
	@$(LANES) test-guest

test: ## all lanes, with a summary; REQUIRE_ALL=1 makes a lane that is left out a failure
	@if [ "$$(id -u)" = 0 ]; then testdata/lab/setup.sh; fi
	@$(LANES)

soak: ## the simulation for SIM_TIME, by default half an hour, and the long form of test-libvirtd
	@SOAK=1 SIM_TIME=$${SIM_TIME:-30m} $(LANES) test-sim test-libvirtd

bench-fleet: ## not there yet
	@echo "make $@: not there yet" >&2; exit 1

bench: ## benchmarks as ratios against the bare work
	@testdata/lab/bench.sh

fuzz: ## each fuzz target for FUZZTIME
	@testdata/lab/fuzz.sh $(FUZZTIME)

clean: ## remove what was built here
	rm -rf build dist
