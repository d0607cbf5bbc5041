package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	armed   = "sys/module/apparmor/parameters/enabled=Y\n"
	profile = "etc/apparmor.d/usr.sbin.libvirtd"
	loaded  = "sys/kernel/security/apparmor/profiles=/usr/sbin/cupsd (enforce)\nlibvirtd (enforce)\n"
	tree    = imagesDir + "/egress"
)

// confinementCase is a state of the host and what doctor says to it.
type confinementCase struct {
	name    string
	host    hostFS
	tree    string
	models  string // what libvirt's capabilities name
	unasked string
	want    []want
}

func judge(t *testing.T, cases []confinementCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := readConfinement(c.host, c.tree)
			got.models, got.unasked = strings.Fields(c.models), c.unasked
			compare(t, got.findings(), c.want)
		})
	}
}

func TestAppArmor(t *testing.T) {
	t.Parallel()
	const aa, aaTree, aaHooks = "AppArmor", "AppArmor and the image tree", "AppArmor and hooks"
	judge(t, []confinementCase{
		{"neither", host(), tree, "none dac", "", []want{{"confinement", ok, []string{"only file modes"}}}},
		{"AppArmor off", host("sys/module/apparmor/parameters/enabled=N"), tree, "dac", "", []want{{"confinement", ok, nil}}},
		{"neither, libvirt not reached", host(), tree, "", "no link", []want{{"confinement", ok, []string{"not read: no link"}}}},
		{"AppArmor in force", host(armed, profile, loaded), tree, "apparmor dac", "", []want{
			{aa, ok, []string{"in force"}}, {aaTree, ok, []string{imagesDir}},
			{aaHooks, ok, []string{"libvirtd (enforce) is loaded", "/etc/apparmor.d/local/usr.sbin.libvirtd", "regular files beneath /etc/libvirt/hooks"}}}},
		{"as the agent's user", host(armed, profile).deny("sys/kernel/security", "etc/libvirt/qemu.conf"), tree, "apparmor dac", "", []want{
			{aa, ok, nil}, {aaTree, ok, nil}, {aaHooks, ok, []string{"whether it is loaded could not be read: permission denied"}}}},
		{"AppArmor, tree outside", host(armed, profile, loaded), "/data/egress", "apparmor dac", "", []want{
			{aa, ok, nil}, {aaTree, warn, []string{"/data/egress is outside", "/etc/apparmor.d/local/abstractions/libvirt-qemu", `"/data/egress/** r,"`, "local/usr.lib.libvirt.virt-aa-helper"}}, {aaHooks, ok, nil}}},
		{"AppArmor, a neighbour's name", host(armed, profile, loaded), imagesDir + "-2/egress", "apparmor", "", []want{{aa, ok, nil}, {aaTree, warn, nil}, {aaHooks, ok, nil}}},
		{"AppArmor, tree in /srv", host(armed, profile, loaded), "/srv/egress", "apparmor dac", "", []want{{aa, ok, nil}, {aaTree, ok, []string{"beneath /srv"}}, {aaHooks, ok, nil}}},
		{"AppArmor, forbidden in qemu.conf", host(armed, profile, loaded, "etc/libvirt/qemu.conf=#x\nsecurity_driver = \"none\"\n"), tree, "none dac", "", []want{
			{aa, warn, []string{"libvirt runs guests without it", "none, dac", "security_driver in /etc/libvirt/qemu.conf is none", "take security_driver out"}}, {aaHooks, ok, nil}}},
		{"AppArmor, qemu.conf unreadable", host(armed, profile, loaded).deny("etc/libvirt/qemu.conf"), tree, "dac", "", []want{
			{aa, warn, []string{"could not be read: permission denied"}}, {aaHooks, ok, nil}}},
		{"AppArmor, no profile", host(armed), tree, "dac", "", []want{
			{aa, warn, []string{"does not forbid it", "no profile of libvirtd", "apparmor_parser -r"}}, {aaHooks, ok, []string{"hooks run unconfined"}}}},
		{"AppArmor, profile not loaded", host(armed, profile, "sys/kernel/security/apparmor/profiles="), tree, "dac", "", []want{
			{aa, warn, []string{"usr.sbin.libvirtd is there, but not loaded"}}, {aaHooks, ok, nil}}},
		{"AppArmor, libvirt not reached", host(armed, profile), tree, "", "no link", []want{
			{aa, warn, []string{"could not be read: no link"}}, {aaTree, ok, nil}, {aaHooks, ok, nil}}},
		{"AppArmor, only libvirt says so", host(), tree, "apparmor", "", []want{{aa, warn, []string{"the kernel seen from here has it off"}}, {aaTree, ok, nil}, {aaHooks, ok, nil}}},
		{"AppArmor, kernel unreadable", host().deny("sys/module"), tree, "dac", "", []want{{aa, warn, []string{"could not be read: permission denied"}}}},
	})
}

func TestSELinux(t *testing.T) {
	t.Parallel()
	const se, seTree, seHooks = "SELinux", "SELinux and the image tree", "SELinux and hooks"
	enforcing, permissive := "sys/fs/selinux/enforce=1", "sys/fs/selinux/enforce=0"
	boolean := "sys/fs/selinux/booleans/virt_hooks_unconfined="
	judge(t, []confinementCase{
		{"SELinux enforcing, boolean on", host(enforcing, boolean+"1 1"), tree, "selinux dac", "", []want{
			{se, ok, []string{"enforcing"}}, {seTree, ok, []string{"virt_image_t"}}, {seHooks, ok, []string{"is on"}}}},
		{"SELinux enforcing, boolean off", host(enforcing, boolean+"0 0"), tree, "selinux dac", "", []want{
			{se, ok, nil}, {seTree, ok, nil}, {seHooks, warn, []string{"hooks then do nothing; the agent works by events all the same", "setsebool -P virt_hooks_unconfined on"}}}},
		{"SELinux enforcing, no boolean", host(enforcing), tree, "selinux dac", "", []want{
			{se, ok, nil}, {seTree, ok, nil}, {seHooks, warn, []string{"does not have the boolean"}}}},
		{"SELinux, boolean unreadable", host(enforcing).deny("sys/fs/selinux/booleans"), tree, "selinux dac", "", []want{
			{se, ok, nil}, {seTree, ok, nil}, {seHooks, warn, []string{"could not be read: permission denied"}}}},
		{"SELinux permissive, tree outside", host(permissive, boolean+"0 0"), "/srv/egress", "selinux dac", "", []want{
			{se, ok, []string{"permissive"}}, {seTree, warn, []string{"semanage fcontext -a -t virt_image_t '/srv/egress(/.*)?' && restorecon -R /srv/egress"}}, {seHooks, ok, []string{"while SELinux is permissive"}}}},
		{"SELinux, libvirt without", host(enforcing, boolean+"1 1", "etc/libvirt/qemu.conf=security_driver = [\n \"apparmor\" ]"), tree, "dac", "", []want{
			{se, warn, []string{"libvirt runs guests without it", "is apparmor"}}, {seHooks, ok, nil}}},
		{"SELinux, libvirt not reached", host(enforcing, boolean+"1 1"), tree, "", "no link", []want{{se, warn, []string{"no link"}}, {seTree, ok, nil}, {seHooks, ok, nil}}},
		{"SELinux, only libvirt says so", host(), tree, "selinux", "", []want{{se, warn, []string{"does not have it"}}, {seTree, ok, nil}}},
		{"SELinux unreadable", host().deny("sys/fs/selinux/enforce"), tree, "selinux", "", []want{{se, warn, []string{"could not be read"}}, {seTree, ok, nil}, {seHooks, warn, nil}}},
	})
}

func TestSecurityModels(t *testing.T) {
	t.Parallel()
	got, err := securityModels("<capabilities><host><secmodel><model>apparmor</model><doi>0</doi></secmodel><secmodel><model>dac</model></secmodel></host></capabilities>")
	if diff := cmp.Diff([]string{"apparmor", "dac"}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := securityModels("<capabilities"); err == nil {
		t.Errorf("broken XML gave %v", got)
	}
}

func TestSecurityDriver(t *testing.T) {
	t.Parallel()
	for conf, want := range map[string]string{
		"":                            "",
		"#security_driver = \"none\"": "",
		"# like: security_driver = [ \"selinux\", \"apparmor\" ]\n": "",
		"user = \"x\"\n  security_driver=\"none\" # off\n":          "none",
		"security_driver = [ \"selinux\",\n\t\"apparmor\" ]\n":      "selinux apparmor",
	} {
		if got := strings.Join(drivers(conf), " "); got != want {
			t.Errorf("%q gave %q, want %q", conf, got, want)
		}
	}
}
