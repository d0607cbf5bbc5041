package kit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// TestDriver is a place on libvirt's test driver: no root, no daemon, no VM.
func TestDriver(dir string) (*Place, error) {
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return nil, err
	}
	node := filepath.Join(dir, "node.xml")
	if err := os.WriteFile(node, []byte(nodeXML), 0o644); err != nil {
		return nil, err
	}
	return &Place{
		Home: dir, Inside: dir, Tree: tree, URI: "test://" + node, Gateway: "192.168.122.1",
		wrap: func(_ bool, args []string) []string { return args },
		stop: func() error { return nil },
	}, nil
}

const nodeXML = `<node>
  <network>
    <name>default</name>
    <forward mode='nat'/>
    <bridge name='virbr0'/>
    <ip address='192.168.122.1' netmask='255.255.255.0'>
      <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp>
    </ip>
  </network>
</node>
`

// EmptyImage makes a qcow2 file with nothing in it.
func EmptyImage(dir string) (string, error) {
	path := filepath.Join(dir, "empty.qcow2")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", path, "1G").CombinedOutput(); err != nil {
		return "", fmt.Errorf("qemu-img create: %w: %s (package qemu-utils)", err, out)
	}
	return path, nil
}

// systemTree is the demo's image tree on the machine's own libvirt, where
// AppArmor's and SELinux's policies for libvirt allow it.
const systemTree = "/var/lib/libvirt/images/egress-demo"

// System is a place on the machine's own libvirtd. The agent's domain is the
// only thing it adds; network "default" has to be there.
func System(dir string) (*Place, error) {
	group, err := qemuGroup()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	for _, args := range [][]string{
		{"install", "-d", "-m", "0755", "-o", User, "-g", User, home},
		{"install", "-d", "-m", "2710", "-o", User, "-g", group, systemTree},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	gateway, err := gatewayOf("default")
	if err != nil {
		return nil, err
	}
	return &Place{
		Home: home, Inside: home, Tree: systemTree, URI: "qemu:///system", Gateway: gateway,
		wrap: func(asUser bool, args []string) []string {
			if !asUser {
				return args
			}
			return append([]string{"setpriv", "--reuid=" + User, "--regid=" + User, "--init-groups", "--", "env", "HOME=" + home}, args...)
		},
		stop: func() error { return os.RemoveAll(systemTree) },
	}, nil
}

// qemuGroup is the group QEMU runs with: distributions name it differently.
func qemuGroup() (string, error) {
	for _, g := range []string{"libvirt-qemu", "qemu", "kvm"} {
		if exec.Command("getent", "group", g).Run() == nil {
			return g, nil
		}
	}
	return "", errors.New("no group of QEMU's user on this machine: is libvirt installed?")
}

// gatewayOf reads the host's address on an active libvirt network.
func gatewayOf(network string) (string, error) {
	out, err := exec.Command("virsh", "-q", "-c", "qemu:///system", "net-dumpxml", network).Output()
	if err != nil {
		return "", fmt.Errorf("network %s of the machine's libvirt: %w; start libvirtd and \"virsh net-start %s\"", network, err, network)
	}
	_, after, _ := strings.Cut(string(out), "<ip address='")
	addr, _, ok := strings.Cut(after, "'")
	if !ok {
		return "", fmt.Errorf("network %s of the machine's libvirt has no IPv4 address", network)
	}
	return addr, nil
}
