package main

import (
	"fmt"
	"strings"
)

// helperDirs are the other directories in which the profile of virt-aa-helper
// lets it read every file.
var helperDirs = []string{"/media", "/mnt", "/opt", "/srv"}

// aboutAppArmor says what AppArmor means here; nothing where neither kernel
// nor libvirt has it.
func (c confinement) aboutAppArmor() []finding {
	const what = "AppArmor"
	on := strings.HasPrefix(c.appArmor.text, "Y")
	switch {
	case c.appArmor.problem != "" && !c.uses("apparmor"):
		return []finding{{what, warn, "whether the kernel has it on could not be read: " + c.appArmor.problem, "run this as root to know"}}
	case !on && !c.uses("apparmor"):
		return nil
	case c.unasked != "":
		return []finding{{what, warn, "on in the kernel; whether libvirt confines guests with it could not be read: " + c.unasked, ""}, c.appArmorTree(), c.appArmorHooks()}
	case !c.uses("apparmor"):
		return []finding{c.appArmorUnused(), c.appArmorHooks()}
	case !on && c.appArmor.problem == "":
		return []finding{{what, warn, "libvirt says that it confines guests with it, but the kernel seen from here has it off: libvirt is another host's, or a container hides the kernel's state", "run this on the host that libvirt runs on"},
			c.appArmorTree(), c.appArmorHooks()}
	}
	return []finding{{what, ok, "in force: each guest runs in a profile of its own, which virt-aa-helper makes at every start from the disks in its XML", ""},
		c.appArmorTree(), c.appArmorHooks()}
}

// appArmorUnused is for a kernel with AppArmor and a libvirt without.
func (c confinement) appArmorUnused() finding {
	why, remedy := c.whyUnused("apparmor"), "for confined guests, take security_driver out of /etc/libvirt/qemu.conf and restart the daemon"
	if d := drivers(c.qemuConf.text); len(d) == 0 {
		remedy = "for confined guests, load the daemon's profile (apparmor_parser -r /etc/apparmor.d/usr.sbin.libvirtd, or of usr.sbin.virtqemud) and restart the daemon"
		why += "; " + c.profileState()
	}
	return finding{"AppArmor", warn, fmt.Sprintf("on in the kernel, but libvirt runs guests without it (its models: %s): file modes alone keep a guest from other guests' disks; %s", c.modelNames(), why), remedy}
}

// profileState says whether libvirt's daemon has a profile, without which
// libvirt does not use AppArmor.
func (c confinement) profileState() string {
	loaded := ""
	for line := range strings.Lines(c.profiles.text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = name[strings.LastIndexByte(name, '/')+1:]
		if name == "libvirtd" || name == "virtqemud" {
			loaded = strings.TrimSpace(line)
		}
	}
	switch {
	case len(c.profileFiles) == 0:
		return "there is no profile of libvirtd or virtqemud in /etc/apparmor.d, without which libvirt leaves AppArmor alone"
	case c.profiles.problem != "":
		return fmt.Sprintf("the profile %s is there; whether it is loaded could not be read: %s", c.profileFiles[0], c.profiles.problem)
	case loaded != "":
		return "the profile " + loaded + " is loaded"
	}
	return fmt.Sprintf("the profile %s is there, but not loaded", c.profileFiles[0])
}

// appArmorTree says whether virt-aa-helper can read the disks. Its profile
// allows whole directories, and elsewhere only names with a disk's ending.
func (c confinement) appArmorTree() finding {
	const what = "AppArmor and the image tree"
	for _, dir := range append([]string{imagesDir}, helperDirs...) {
		if beneath(dir, c.tree) {
			return finding{what, ok, c.tree + " is beneath " + dir + ", where virt-aa-helper may read every file", ""}
		}
	}
	return finding{what, warn, fmt.Sprintf("%s is outside of %s: virt-aa-helper reads disks there only by the ending of their names (.qcow2, .raw and .iso are allowed) and not in hidden directories of a home; a disk that it can not read is denied to the guest", c.tree, imagesDir),
		fmt.Sprintf("move the tree, or, when starts are denied (journalctl -k -g apparmor), add \"%[1]s/** r,\" to /etc/apparmor.d/local/usr.lib.libvirt.virt-aa-helper and run apparmor_parser -r /etc/apparmor.d/usr.lib.libvirt.virt-aa-helper; as a last resort add \"%[1]s/** rwk,\" to /etc/apparmor.d/local/abstractions/libvirt-qemu, which opens the whole tree to every guest", c.tree)}
}

// appArmorHooks says what the profile of libvirt's daemon allows to hooks.
func (c confinement) appArmorHooks() finding {
	const what = "AppArmor and hooks"
	if len(c.profileFiles) == 0 {
		return finding{what, ok, c.profileState() + "; hooks run unconfined", ""}
	}
	return finding{what, ok, "hooks run in the daemon's profile, which allows regular files beneath /etc/libvirt/hooks (a link that leads out of it is denied) and sockets that have a path; " +
		c.profileState() + "; additions go to /etc/apparmor.d/local/" + c.profileFiles[0], ""}
}
