package main

import (
	"fmt"
	"strings"
)

// aboutSELinux says what SELinux means here; nothing where neither kernel nor
// libvirt has it.
func (c confinement) aboutSELinux() []finding {
	const what = "SELinux"
	on := c.seLinux.found
	switch {
	case c.seLinux.problem != "":
		return []finding{{what, warn, "whether it enforces could not be read: " + c.seLinux.problem, "run this as root to know"}, c.seLinuxTree(), c.seLinuxHooks()}
	case !on && !c.uses("selinux"):
		return nil
	case !on:
		return []finding{{what, warn, "libvirt says that it confines guests with it, but the kernel seen from here does not have it: libvirt is another host's, or a container hides the kernel's state", "run this on the host that libvirt runs on"},
			c.seLinuxTree()}
	case c.unasked != "":
		return []finding{{what, warn, c.seLinuxMode() + "; whether libvirt confines guests with it could not be read: " + c.unasked, ""}, c.seLinuxTree(), c.seLinuxHooks()}
	case !c.uses("selinux"):
		return []finding{{what, warn, fmt.Sprintf("%s in the kernel, but libvirt runs guests without it (its models: %s): file modes alone keep a guest from other guests' disks; %s", c.seLinuxMode(), c.modelNames(), c.whyUnused("selinux")),
			"for confined guests, take security_driver out of /etc/libvirt/qemu.conf and restart the daemon"}, c.seLinuxHooks()}
	}
	return []finding{{what, ok, c.seLinuxMode() + ": libvirt gives each guest and its disks a label of their own", ""}, c.seLinuxTree(), c.seLinuxHooks()}
}

func (c confinement) seLinuxMode() string {
	if c.seLinux.text == "1" {
		return "enforcing"
	}
	return "permissive, which logs denials and lets them pass"
}

// seLinuxTree says whether the policy's file contexts fit the tree.
func (c confinement) seLinuxTree() finding {
	const what = "SELinux and the image tree"
	if beneath(imagesDir, c.tree) {
		return finding{what, ok, fmt.Sprintf("%s is beneath %s, whose files get the label virt_image_t; files that were moved there get it by restorecon -R %s", c.tree, imagesDir, c.tree), ""}
	}
	return finding{what, warn, fmt.Sprintf("%s is outside of %s: files there do not get the label virt_image_t by themselves, and libvirt and its guests are denied what does not have it (when SELinux enforces)", c.tree, imagesDir),
		fmt.Sprintf("semanage fcontext -a -t virt_image_t '%[1]s(/.*)?' && restorecon -R %[1]s", c.tree)}
}

// seLinuxHooks says whether hooks can do their work. The boolean came to the
// policy in June 2024; its rules name virtnetworkd first.
func (c confinement) seLinuxHooks() finding {
	const what = "SELinux and hooks"
	const remedy = "setsebool -P virt_hooks_unconfined on && restorecon -R /etc/libvirt/hooks; should guests then fail to start with a hook's error, the policy lacks the rule for virtqemud: take the hook away"
	switch {
	case c.seLinux.text == "0":
		return finding{what, ok, "hooks run while SELinux is permissive; once it enforces they need the boolean virt_hooks_unconfined", ""}
	case c.hooks.problem != "":
		return finding{what, warn, "the boolean virt_hooks_unconfined could not be read: " + c.hooks.problem + "; when it is off, hooks do nothing; the agent works by events all the same", "getsebool virt_hooks_unconfined"}
	case !c.hooks.found:
		return finding{what, warn, "this policy does not have the boolean virt_hooks_unconfined, so whether hooks may run is the policy's to say; where it denies them they do nothing, and the agent works by events all the same",
			"look for denials after a guest's start: ausearch -m avc -ts recent"}
	case strings.HasPrefix(c.hooks.text, "1"):
		return finding{what, ok, "the boolean virt_hooks_unconfined is on: hooks that restorecon has labelled virt_hook_t run unconfined, network hooks in any case, hooks of virtqemud where the policy names it too", ""}
	}
	return finding{what, warn, "hooks are confined, because the boolean virt_hooks_unconfined is off, its default: hooks then do nothing; the agent works by events all the same", remedy}
}
