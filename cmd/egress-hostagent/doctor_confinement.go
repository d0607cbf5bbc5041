package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// imagesDir is where the policies of AppArmor and SELinux expect disks.
const imagesDir = "/var/lib/libvirt/images"

// confinement is what was found about the security modules of kernel and
// libvirt.
type confinement struct {
	tree string // the image tree, with links resolved

	appArmor     reading  // /sys/module/apparmor/parameters/enabled: Y or N
	profiles     reading  // those loaded: "libvirtd (enforce)"; only for root
	profileFiles []string // profiles of libvirt's daemons in /etc/apparmor.d
	qemuConf     reading  // libvirt's qemu.conf; only for root

	seLinux reading // /sys/fs/selinux/enforce: 1 enforcing, 0 permissive
	hooks   reading // the boolean virt_hooks_unconfined: "1 1" on, "0 0" off

	models  []string // libvirt's own word in its capabilities: what guests run under
	unasked string   // why that is not known
}

// readConfinement looks at the host's files beneath root.
func readConfinement(root fs.FS, tree string) confinement {
	c := confinement{
		tree:     tree,
		appArmor: readFile(root, "sys/module/apparmor/parameters/enabled"),
		profiles: readFile(root, "sys/kernel/security/apparmor/profiles"),
		qemuConf: readFile(root, "etc/libvirt/qemu.conf"),
		seLinux:  readFile(root, "sys/fs/selinux/enforce"),
		hooks:    readFile(root, "sys/fs/selinux/booleans/virt_hooks_unconfined"),
	}
	for _, name := range []string{"usr.sbin.libvirtd", "usr.sbin.virtqemud"} {
		if _, err := fs.Stat(root, "etc/apparmor.d/"+name); err == nil {
			c.profileFiles = append(c.profileFiles, name)
		}
	}
	return c
}

// checkConfinement asks host and libvirt. reached tells whether libvirt can be
// asked.
func checkConfinement(ctx context.Context, root fs.FS, cfg config.Config, w wired, reached bool) []finding {
	tree := cfg.Tree
	if target, err := filepath.EvalSymlinks(tree); err == nil {
		tree = target // what the kernel looks at
	}
	c := readConfinement(root, tree)
	if !reached {
		c.unasked = "libvirt is not reached"
		return c.findings()
	}
	ctx, cancel := context.WithTimeout(ctx, lookDeadline)
	defer cancel()
	xml, err := w.conn.Capabilities(ctx)
	if err == nil {
		c.models, err = securityModels(xml)
	}
	if err != nil {
		c.unasked = err.Error()
	}
	return c.findings()
}

// securityModels reads <host><secmodel><model> of libvirt's capabilities.
func securityModels(xml string) ([]string, error) {
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(xml); err != nil {
		return nil, fmt.Errorf("read libvirt's capabilities: %w", err)
	}
	var models []string
	for _, m := range caps.Host.SecModel {
		models = append(models, m.Name)
	}
	return models, nil
}

// findings says for each security module that is on what it means.
func (c confinement) findings() []finding {
	out := append(c.aboutAppArmor(), c.aboutSELinux()...)
	if len(out) > 0 {
		return out
	}
	detail := "neither AppArmor nor SELinux is on: only file modes and QEMU's own user keep a guest from the host's files and from other guests' disks"
	if c.unasked != "" {
		detail += "; what libvirt says was not read: " + c.unasked
	}
	return []finding{{"confinement", ok, detail, ""}}
}

// uses tells whether libvirt confines guests with a model.
func (c confinement) uses(model string) bool { return slices.Contains(c.models, model) }

// modelNames lists what libvirt uses instead, for a sentence.
func (c confinement) modelNames() string {
	if len(c.models) == 0 {
		return "none"
	}
	return strings.Join(c.models, ", ")
}

var (
	securityDriver = regexp.MustCompile(`(?m)^[ \t]*security_driver[ \t]*=[ \t]*(\[[^\]]*\]|"[^"\n]*")`)
	quoted         = regexp.MustCompile(`"([^"]*)"`)
)

// drivers gives security_driver of a qemu.conf: one name or a list of names;
// none when it is not set and libvirt chooses.
func drivers(conf string) []string {
	m := securityDriver.FindStringSubmatch(conf)
	if m == nil {
		return nil
	}
	var names []string
	for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
		names = append(names, q[1])
	}
	return names
}

// whyUnused says why libvirt does not use a model that the kernel has, as far
// as qemu.conf tells.
func (c confinement) whyUnused(model string) string {
	set := drivers(c.qemuConf.text)
	switch {
	case c.qemuConf.problem != "":
		return "/etc/libvirt/qemu.conf, whose security_driver may say so, could not be read: " + c.qemuConf.problem
	case len(set) > 0 && !slices.Contains(set, model):
		return fmt.Sprintf("security_driver in /etc/libvirt/qemu.conf is %s", strings.Join(set, ", "))
	}
	return "security_driver in /etc/libvirt/qemu.conf does not forbid it"
}
