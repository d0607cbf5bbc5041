package virt

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func iface(name, mac string, addrs ...string) libvirt.DomainInterface {
	i := libvirt.DomainInterface{Name: name, Hwaddr: mac}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, libvirt.DomainIPAddress{Addr: a})
	}
	return i
}

func TestI17_ClaimsTakeOnlyWhatIsOne(t *testing.T) {
	t.Parallel()
	got := claims([]libvirt.DomainInterface{
		iface("lo", "", "127.0.0.1"),
		iface("lo", "00:00:00:00:00:00", "::1"),
		iface("eth0", "56:AB:CD:00:00:01", "192.0.2.7", "fe80::1%eth0", "::ffff:192.0.2.8"),
		iface("\x1b[2J", "not a MAC", "192.0.2.9"),
		iface("ib0", "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01", "192.0.2.10"),
		iface("eth1", "56:ab:cd:00:00:02", "not an address", "192.0.2.300", ""),
	}, observe.FromAgent)
	want := []observe.Claim{
		{MAC: "56:ab:cd:00:00:01", Addr: netip.MustParseAddr("192.0.2.7"), Source: observe.FromAgent},
		{MAC: "56:ab:cd:00:00:01", Addr: netip.MustParseAddr("fe80::1"), Source: observe.FromAgent},
		{MAC: "56:ab:cd:00:00:01", Addr: netip.MustParseAddr("192.0.2.8"), Source: observe.FromAgent},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestI15_ClaimsAreBounded(t *testing.T) {
	t.Parallel()
	var many []libvirt.DomainInterface
	for i := range 100 {
		many = append(many, iface("e", fmt.Sprintf("56:00:00:00:00:%02x", i), "192.0.2.1"))
	}
	if got := claims(many, observe.FromLease); len(got) != interfacesMax {
		t.Errorf("%d claims of 100 interfaces", len(got))
	}
	one := iface("e", "56:00:00:00:00:01")
	for range 1000 {
		one.Addrs = append(one.Addrs, libvirt.DomainIPAddress{Addr: "192.0.2.1"})
	}
	if got := claims([]libvirt.DomainInterface{one, one}, observe.FromLease); len(got) != addressesMax {
		t.Errorf("%d claims of 2000 addresses", len(got))
	}
}

func TestPrefixesIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, ips, want string }{
		{"none", ``, "[]"},
		{"netmask", `<ip address="192.168.122.1" netmask="255.255.255.0"/>`, "[192.168.122.0/24]"},
		{"prefix", `<ip address="10.1.2.3" prefix="20"/>`, "[10.1.0.0/20]"},
		{"both families", `<ip address="10.0.0.1" netmask="255.0.0.0"/><ip family="ipv6" address="2001:db8::1" prefix="48"/>`, "[10.0.0.0/8 2001:db8::/48]"},
		{"class", `<ip address="172.16.0.1"/><ip address="192.0.2.1"/><ip family="ipv6" address="2001:db8::1"/>`, "[172.16.0.0/16 192.0.2.0/24 2001:db8::/64]"},
		{"no address", `<ip/>`, "error"},
		{"gap in the netmask", `<ip address="10.0.0.1" netmask="255.0.255.0"/>`, "error"},
		{"netmask of no kind", `<ip address="10.0.0.1" netmask="x"/>`, "error"},
		{"long prefix", `<ip address="10.0.0.1" prefix="33"/>`, "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			prefixes, err := prefixesIn("<network><name>n</name>" + test.ips + "</network>")
			got := fmt.Sprint(prefixes)
			if err != nil {
				got = "error"
			}
			if got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
	if _, err := prefixesIn("<network"); err == nil {
		t.Error("broken XML was taken")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := version(9_007_012); got != "9.7.12" {
		t.Error(got)
	}
}

func TestOldLibvirtIsRefusedByItsVersion(t *testing.T) {
	t.Parallel()
	for v, want := range map[uint32]string{
		7_010_000:  "the libvirt daemon is version 7.10.0; the agent needs 8.0.0 or later",
		7_999_999:  "the libvirt daemon is version 7.999.999; the agent needs 8.0.0 or later",
		8_000_000:  "",
		12_007_000: "",
	} {
		got := ""
		if err := checkVersion("daemon", v); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("version %d: %q, want %q", v, got, want)
		}
	}
}
