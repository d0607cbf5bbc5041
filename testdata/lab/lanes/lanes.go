package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// need tells what a lane misses on this machine; empty when it is there.
type need func() string

func root() string {
	if os.Geteuid() != 0 {
		return "it has to run as root"
	}
	return ""
}

func tool(name, pkg string) need {
	return func() string {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Sprintf("%s is not installed (package %s)", name, pkg)
		}
		return ""
	}
}

func libvirtHeaders() string {
	if exec.Command("pkg-config", "--exists", "libvirt").Run() != nil {
		return "libvirt's headers are not installed (package libvirt-dev)"
	}
	return ""
}

// noCgo is the environment of everything but the link to libvirt.
var noCgo = []string{"CGO_ENABLED=0"}

// pure lists the packages that build without cgo: all but virt and its command.
func pure() []string {
	cmd := exec.Command("go", "list", "-e", "./...")
	cmd.Env = append(os.Environ(), noCgo...)
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lanes: go list:", err)
		os.Exit(1)
	}
	var pkgs []string
	for _, p := range strings.Fields(string(out)) {
		if !strings.HasSuffix(p, "/hostagent/virt") && !strings.HasSuffix(p, "/cmd/egress-hostagent") {
			pkgs = append(pkgs, p)
		}
	}
	return pkgs
}

const (
	virt   = "./hostagent/virt"
	daemon = "./cmd/egress-hostagent"
	lab    = "./testdata/lab/"
	tagged = "-tags=cloudinit,guest,libvirtd,package,versions,web" // what other lanes build
	// crashes kills some three hundred agents: without the race detector, which
	// has seen the same code in the step before.
	crashes = "^TestI05_I08_CrashPoints$"
)

// lanes are in the order in which they run: what fails fast comes first.
func lanes() []lane {
	pkgs := pure()
	with := func(args ...string) []string { return append(args, pkgs...) }
	return []lane{
		{"check", []need{libvirtHeaders}, []step{
			command("gofmt", true, nil, "gofmt", "-l", "."),
			command("go.mod is tidy", false, nil, "go", "mod", "tidy", "-diff"),
			command("everything but virt and its command builds without cgo", false, noCgo, with("go", "build")...),
			command("release build needs only libc", false, nil, "testdata/lab/check-release.sh"),
			command("go vet", false, nil, "go", "vet", "./...", lab+"..."),
			command("go vet of the lanes behind tags", false, nil, "go", "vet", tagged, virt, daemon, "./seed", lab+"..."),
			command("staticcheck", false, nil, "go", "tool", "-modfile=packaging/tools/go.mod", "staticcheck", tagged, "./...", lab+"..."),
			command("shell scripts parse", false, nil, "sh", "-c", "for f in testdata/lab/*.sh testdata/lab/cloudinit/*.sh .ci/run; do bash -n $f || exit 1; done"),
		}},
		{"test-unit", nil, []step{
			goTest(false, with("-race", "-timeout=5m")...),
			onCloudInit("-tags=cloudinit", "-timeout=5m", "-count=1", "-run=CloudInit", "./seed"),
		}},
		{"test-sim", nil, []step{
			goTest(false, "-timeout=24h", "-run=^TestSim(Replays)?$", "./hostagent", "-args", "-sim.time="+simTime(), "-sim.from="+simFrom()),
			goTest(false, append([]string{"-timeout=24h", "-count=1", "-run=^TestSimCatches$", "./hostagent", "-args"}, simGuards()...)...),
		}},
		{"test-driver", []need{libvirtHeaders, tool("qemu-img", "qemu-utils")}, []step{
			goTest(false, "-race", "-timeout=5m", "-skip="+crashes, virt, daemon),
			goTest(true, "-timeout=8m", "-v", "-run="+crashes, daemon),
		}},
		{"test-web", []need{libvirtHeaders, tool("qemu-img", "qemu-utils"), tool("nginx", "nginx-light"), tool("curl", "curl")}, []step{
			// Agents wait most of the time: more of them at once than processors.
			goTest(false, "-tags=web", "-timeout=10m", "-count=1", "-parallel=24", lab+"web"),
		}},
		{"test-libvirtd", []need{root, libvirtHeaders, tool("libvirtd", "libvirt-daemon-system"), tool("qemu-system-x86_64", "qemu-system-x86")}, []step{
			onDaemon("-tags=libvirtd", "-timeout=5m", "-count=1", "-run=OnADaemon$", virt),
			goTest(true, "-tags=libvirtd", "-timeout="+linkTime(), "-count=1", "-v", lab+"link"),
		}},
		{"test-versions", []need{root, libvirtHeaders, tool("libvirtd", "libvirt-daemon-system"), tool("qemu-system-x86_64", "qemu-system-x86"), tool("mmdebstrap", "mmdebstrap")}, []step{
			otherVersions,
		}},
		{"test-package", []need{root, tool("qemu-img", "qemu-utils"), tool("systemd-nspawn", "systemd-container"), tool("mmdebstrap", "mmdebstrap"), tool("lintian", "lintian"), tool("rpmlint", "rpmlint")}, []step{
			command("make packages", false, nil, "make", "packages"),
			command("packages hold what they promise", false, nil, "packaging/check.sh", "dist"),
			goTest(true, "-tags=package", "-timeout=15m", "-count=1", "-v", lab+"pack"),
		}},
		{"test-guest", []need{root, tool("libvirtd", "libvirt-daemon-system"), tool("qemu-system-x86_64", "qemu-system-x86"), tool("mmdebstrap", "mmdebstrap")}, []step{
			goTest(true, "-tags=guest", "-timeout=20m", "-count=1", "-v", "-run=^TestGuest", daemon),
		}},
	}
}

func simTime() string {
	if t := os.Getenv("SIM_TIME"); t != "" {
		return t
	}
	return "90s"
}

// simFrom is where the seeds begin: a soak hunts where nobody has been, every
// other run says the same of the same code.
func simFrom() string {
	if os.Getenv("SOAK") == "1" {
		return strconv.FormatInt(time.Now().UnixNano(), 10)
	}
	return "0"
}

// simGuards is which guards are switched off, and within how many seeds the
// simulation has to notice: those that a seed is known for; all with SOAK=1.
func simGuards() []string {
	if os.Getenv("SOAK") == "1" {
		return []string{"-sim.guards=3000"}
	}
	return []string{"-sim.known", "-sim.guards=600"}
}

// linkTime bounds the tests of the link to libvirt; SOAK=1 makes them long.
func linkTime() string {
	if os.Getenv("SOAK") == "1" {
		return "4h"
	}
	return "20m"
}
