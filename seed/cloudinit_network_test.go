//go:build cloudinit

package seed

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rendering is what each renderer has to make of threeNICs: lines, as regular
// expressions, that stand exactly as often as they are listed, in the files
// whose names match.
var rendering = map[string]map[string][]string{
	"eni": {
		"interfaces$": {
			"auto eth0", "auto eth1", "auto eth2", "iface eth1 inet dhcp",
			"iface eth0 inet static", "iface eth0 inet static", "iface eth0 inet6 static", "iface eth2 inet static",
			"address 192.0.2.10/24", "address 198.51.100.7/28", "gateway 198.51.100.1",
			"address 2001:db8::10/64", "gateway 2001:db8::1", "dns-nameservers 192.0.2.53", "dns-nameservers (192.0.2.53 )?2001:db8::53",
			"address 203.0.113.3/31", "dns-nameservers 9.9.9.9", "gateway .*", "gateway .*",
		},
	},
	"netplan": {
		"yaml$": {
			"eth0:", "eth1:", "eth2:", "set-name: eth0", "set-name: eth1", "set-name: eth2",
			"macaddress: '?56:aa:00:00:00:01'?", "macaddress: '?56:aa:00:00:00:02'?", "macaddress: '?56:aa:00:00:00:03'?",
			"- 192.0.2.10/24", "- 198.51.100.7/28", "- 2001:db8::10/64", "- 203.0.113.3/31", "dhcp4: true",
			"(gateway4:|-? ?via:) 198.51.100.1", "(gateway6:|-? ?via:) 2001:db8::1",
			"- 192.0.2.53", "- 192.0.2.53", "- 2001:db8::53", "- 9.9.9.9",
		},
	},
	"networkd": {
		"eth0.network$": {
			"MACAddress=56:aa:00:00:00:01", "Address=192.0.2.10/24", "Address=198.51.100.7/28", "Address=2001:db8::10/64",
			"Gateway=198.51.100.1", "Gateway=2001:db8::1", "DNS=192.0.2.53", "DNS=192.0.2.53 2001:db8::53", "DHCP=no",
		},
		"eth1.network$": {"MACAddress=56:aa:00:00:00:02", "DHCP=(ipv4|yes)"},
		"eth2.network$": {"MACAddress=56:aa:00:00:00:03", "Address=203.0.113.3/31", "DNS=9.9.9.9"},
	},
	"sysconfig": {
		"ifcfg-eth0$": {
			"HWADDR=56:aa:00:00:00:01", "IPADDR=192.0.2.10", "NETMASK=255.255.255.0", "IPADDR1=198.51.100.7", "NETMASK1=255.255.255.240",
			"GATEWAY=198.51.100.1", "IPV6ADDR=2001:db8::10/64", "IPV6_DEFAULTGW=2001:db8::1", "DNS1=192.0.2.53", "DNS2=2001:db8::53",
			"BOOTPROTO=none",
		},
		"ifcfg-eth1$": {"HWADDR=56:aa:00:00:00:02", "BOOTPROTO=dhcp"},
		"ifcfg-eth2$": {"HWADDR=56:aa:00:00:00:03", "IPADDR=203.0.113.3", "NETMASK=255.255.255.254", "DNS1=9.9.9.9"},
	},
	"network_manager": {
		"eth0.nmconnection$": {
			"mac-address=56:AA:00:00:00:01", "address1=192.0.2.10/24", "address2=198.51.100.7/28", "gateway=198.51.100.1",
			"address1=2001:db8::10/64", "gateway=2001:db8::1", "dns=(192.0.2.53;)+", "dns=2001:db8::53;", "method=manual", "method=manual",
		},
		"eth1.nmconnection$": {"mac-address=56:AA:00:00:00:02", "method=auto"},
		"eth2.nmconnection$": {"mac-address=56:AA:00:00:00:03", "address1=203.0.113.3/31", "method=manual", "dns=9.9.9.9;"},
	},
}

// The lines of a file that match, trimmed.
func matching(text, line string) []string {
	form := regexp.MustCompile("^" + line + "$")
	var out []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); form.MatchString(l) {
			out = append(out, l)
		}
	}
	return out
}

func TestCase023_CloudInitRendersTheNICs(t *testing.T) {
	t.Parallel()
	got := ciSeeds(t, "", Input{InstanceID: "i", NICs: threeNICs()})[0]
	names := [][2]string{{"56:aa:00:00:00:01", "eth0"}, {"56:aa:00:00:00:02", "eth1"}, {"56:aa:00:00:00:03", "eth2"}}
	if diff := cmp.Diff(names, got.Names); diff != "" {
		t.Errorf("names that interfaces get (-want +got):\n%s", diff)
	}
	// The others came after 20.4; those that a release has are all looked at.
	for _, renderer := range []string{"eni", "netplan", "sysconfig"} {
		if len(got.Rendered[renderer]) == 0 {
			t.Errorf("%s rendered nothing", renderer)
		}
	}
	for renderer, files := range got.Rendered {
		t.Logf("%s: %q", renderer, slices.Sorted(maps.Keys(files)))
		for form, lines := range rendering[renderer] {
			checkRendered(t, renderer, form, lines, files)
		}
	}
}

// checkRendered wants one file whose name matches, and each line in it as often
// as it is listed.
func checkRendered(t *testing.T, renderer, form string, lines []string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if !regexp.MustCompile(form).MatchString(name) {
			continue
		}
		for _, line := range lines {
			want := 0
			for _, other := range lines {
				if other == line {
					want++
				}
			}
			if got := matching(text, line); len(got) != want {
				t.Errorf("%s, %s: %q stands %d times, want %d, in\n%s", renderer, name, line, len(got), want, text)
			}
		}
		return
	}
	t.Errorf("%s: no file %s", renderer, form)
}
