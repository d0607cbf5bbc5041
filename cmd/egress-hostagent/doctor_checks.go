package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func checkQemuImg(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b, err := exec.CommandContext(ctx, "qemu-img", "--version").Output()
	if err != nil {
		return finding{"qemu-img", fail, err.Error(), "install qemu-utils (Debian) or qemu-img (Fedora, RHEL)"}
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return finding{"qemu-img", ok, line, ""}
}

func checkSpecs(cfg config.Config) finding {
	dir := cfg.Specs.Dir
	if _, err := os.ReadDir(dir); err != nil {
		return finding{"specs", fail, err.Error(), "create " + dir + ", readable for the agent's user, or set dir in [specs]"}
	}
	return finding{"specs", ok, dir, ""}
}

func checkTree(cfg config.Config, w wired) finding {
	remedy := fmt.Sprintf("install -d -m 2710 -o egress-hostagent -g libvirt-qemu %s (the group is qemu on Fedora and RHEL)", cfg.Tree)
	st, err := os.Stat(cfg.Tree)
	if err != nil {
		return finding{"image tree", fail, err.Error(), remedy}
	}
	switch t := w.tree.Scan(); {
	case t.Marker == observe.MarkerAbsent && t.Empty:
		return finding{"image tree", ok, cfg.Tree + " is empty; the agent sets it up at its first start", ""}
	case t.Marker != observe.MarkerOK:
		return finding{"image tree", fail, t.Detail, "mount the volume that holds the tree, or set root in [tree]"}
	}
	if st.Mode()&fs.ModeSetgid == 0 {
		return finding{"image tree", warn, fmt.Sprintf("%s has mode %v: files made in it do not get QEMU's group", cfg.Tree, st.Mode()), "chmod 2710 " + cfg.Tree}
	}
	return finding{"image tree", ok, cfg.Tree, ""}
}

// checkKVM finds the mode of /dev/kvm with which libvirt, which probes as root
// and then checks as QEMU's user, never trusts its cache and probes QEMU again
// at every define: it works, a thousand times slower.
func checkKVM(cfg config.Config) finding {
	const dev = "/dev/kvm"
	wanted := cfg.Libvirt.Acceleration == string(domxml.KVM)
	st, err := os.Stat(dev)
	switch {
	case errors.Is(err, fs.ErrNotExist) && wanted:
		return finding{dev, fail, "missing, and acceleration is \"kvm\"", "enable virtualisation in the firmware and load kvm_intel or kvm_amd, or set acceleration = \"tcg\" in [libvirt]"}
	case errors.Is(err, fs.ErrNotExist):
		return finding{dev, ok, "missing; acceleration is \"tcg\"", ""}
	case err != nil:
		return finding{dev, warn, err.Error(), ""}
	}
	sys, _ := st.Sys().(*syscall.Stat_t)
	if st.Mode().Perm()&0o006 == 0o006 || st.Mode().Perm()&0o060 == 0o060 && sys != nil && sys.Gid != 0 {
		return finding{dev, ok, st.Mode().String(), ""}
	}
	return finding{dev, fail, fmt.Sprintf("mode %v: QEMU's user can not open it, and libvirt probes QEMU anew at every define (seconds to a minute each)", st.Mode()),
		"chgrp kvm /dev/kvm && chmod 660 /dev/kvm, then restart libvirtd; udev does so where its rules are installed"}
}

func checkLibvirt(ctx context.Context, cfg config.Config, w wired) finding {
	lib, hv, err := w.conn.Version(ctx)
	if err != nil {
		return finding{"libvirt", fail, err.Error(), "start libvirtd (or virtqemud), and run this as a member of group libvirt; uri in [libvirt] is " + cfg.Libvirt.URI}
	}
	return finding{"libvirt", ok, fmt.Sprintf("%s, libvirt %s, hypervisor %s", cfg.Libvirt.URI, lib, hv), ""}
}

// checkNetworks looks at the networks, bridges and interfaces that specs name, or
// else the defaults.
func checkNetworks(ctx context.Context, cfg config.Config, w wired) []finding {
	ctx, cancel := context.WithTimeout(ctx, lookDeadline)
	defer cancel()
	nets := map[spec.Network]bool{}
	for _, e := range w.dir.ReadOnce().Entries {
		if e.Spec != nil {
			for _, n := range e.Spec.Networks {
				nets[n.Network] = true
			}
		}
	}
	if len(nets) == 0 {
		n := cfg.Catalog.Defaults.Network
		if n == (spec.Network{}) {
			n.Network = "default"
		}
		nets[n] = true
	}
	var out []finding
	for _, n := range slices.SortedFunc(maps.Keys(nets), spec.Network.Compare) {
		out = append(out, checkNetwork(ctx, n, w))
	}
	return out
}

func checkNetwork(ctx context.Context, n spec.Network, w wired) finding {
	if iface := n.Bridge + n.Direct; iface != "" {
		return checkInterface(n, os.DirFS("/sys/class/net/"))
	}
	what := "network " + n.Network
	active, err := w.conn.NetworkActive(ctx, n.Network)
	switch {
	case err != nil:
		return finding{what, fail, err.Error(), "virsh net-list --all shows what there is"}
	case !active:
		return finding{what, fail, "is not active: no proxy on it can start", fmt.Sprintf("virsh net-start %s && virsh net-autostart %s", n.Network, n.Network)}
	}
	return finding{what, ok, "active", ""}
}

// checkInterface looks at a bridge, or at the interface that macvtaps are to be
// on, in sys, which is /sys/class/net. A bridge has a directory "bridge" there,
// operstate is that of RFC 2863; "unknown" is what drivers say that do not tell.
func checkInterface(n spec.Network, sys fs.FS) finding {
	name, what := n.Bridge, "bridge "+n.Bridge
	if n.Direct != "" {
		name, what = n.Direct, "direct interface "+n.Direct
	}
	if _, err := fs.Stat(sys, name); err != nil {
		return finding{what, fail, "the host has no interface of that name: no proxy on it can start", "create it on the host, or name another in [[network]]; ip link shows what there is"}
	}
	if _, err := fs.Stat(sys, name+"/bridge"); n.Bridge != "" && err != nil {
		if _, err := fs.Stat(sys, name+"/brport"); err == nil {
			return finding{what, fail, "is a port of a bridge and none itself", "name the bridge, or use direct = \"" + name + "\""}
		}
		return finding{what, warn, "is no Linux bridge; libvirt takes it only if it is one of Open vSwitch, for which the agent's domains have no virtualport", "make a Linux bridge, or use direct = \"" + name + "\""}
	}
	state, err := fs.ReadFile(sys, name+"/operstate")
	if text := strings.TrimSpace(string(state)); n.Direct != "" && err == nil && text != "up" && text != "unknown" {
		return finding{what, warn, "is " + text + ": guests on it reach nobody", "ip link set " + name + " up, and see to its cable"}
	}
	if n.Direct != "" {
		return finding{what, ok, "exists; the host itself does not reach guests on it, so their proxies are not probed", ""}
	}
	return finding{what, ok, "exists", ""}
}

// checkAcceleration runs a guest: libvirt listing an acceleration is no proof
// that it works.
func checkAcceleration(ctx context.Context, cfg config.Config, w wired) finding {
	what := "acceleration " + cfg.Libvirt.Acceleration
	if strings.HasPrefix(cfg.Libvirt.URI, "test:") {
		return finding{what, warn, "not checked: libvirt's test driver runs no guests", ""}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	disk := filepath.Join(cfg.Tree, ".doctor-"+rand.Text()[:8]+".raw")
	if err := os.WriteFile(disk, domxml.BootDisk(), 0o640); err != nil {
		return finding{what, fail, "not checked: " + err.Error(), "run this as the agent's user, with the image tree in place"}
	}
	defer os.Remove(disk)
	began := time.Now()
	if err := bootAndWait(ctx, cfg, w, disk); err != nil {
		remedy := "look at the domain's log beneath /var/log/libvirt/qemu"
		if cfg.Libvirt.Acceleration == string(domxml.KVM) {
			remedy = "check the firmware's and, in a VM, the host's virtualisation settings; or set acceleration = \"tcg\" in [libvirt]"
		}
		return finding{what, fail, err.Error(), remedy}
	}
	return finding{what, ok, fmt.Sprintf("a guest ran and powered off in %.1f s", time.Since(began).Seconds()), ""}
}

var errDidNotRun = errors.New("the domain started, but its guest executed nothing within the deadline")

// bootAndWait starts the transient domain and waits until it has powered
// itself off, which makes it vanish.
func bootAndWait(ctx context.Context, cfg config.Config, w wired, disk string) error {
	name := "egress-doctor-" + strings.ToLower(rand.Text()[:8])
	id := uuid.NewString()
	xml, err := domxml.BootCheck(name, id, domxml.Acceleration(cfg.Libvirt.Acceleration), disk)
	if err != nil {
		return err
	}
	if err := w.conn.CreateTransient(ctx, xml); err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = w.conn.Destroy(end, id) // gone already is the good case
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return errDidNotRun
		case <-tick.C:
		}
		d, err := w.conn.LookupDomain(ctx, id)
		if errors.Is(err, observe.ErrNoDomain) || err == nil && d.Power == observe.PowerOff {
			return nil
		}
	}
}
