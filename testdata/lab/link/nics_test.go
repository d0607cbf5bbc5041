//go:build libvirtd

package link

import (
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestNICs: what a spec says of its NICs is what libvirt runs, and bandwidth
// changes under a running guest.
func TestNICs(t *testing.T) {
	l := newLane(t, setting{})
	l.start()
	const filtered = `
[[network]]
network = "default"
isolated = true
clean_traffic = true
address = "192.168.122.77/24"
`
	l.write("nic", spec(filtered+`inbound = "8Mbit/s"`+"\n"+`outbound = "4Mbit/s"`+"\n"))
	l.running("nic")
	d := domxml.DomainName("nic")
	for _, piece := range []string{
		"<port isolated='yes'/>", "<filterref filter='clean-traffic'>", "<parameter name='IP' value='192.168.122.77'/>",
	} {
		if xml := l.virsh("dumpxml " + d); !strings.Contains(xml, piece) {
			l.Errorf("it runs without %s:\n%s", piece, xml)
		}
	}
	l.limited("nic", 1000, 500)
	id, from := l.domainID(d), l.agent.LogSize()
	for _, c := range []struct {
		keys    string
		in, out int
	}{{`outbound = "16Mbit/s"`, 0, 2000}, {"", 0, 0}, {`inbound = "8kbit/s"`, 1, 0}} {
		before := l.proxy("nic").SpecHash
		l.write("nic", spec(filtered+c.keys+"\n"))
		l.waitProxy("nic", "is tuned", func(p status.Proxy) bool { return runs(p) && p.SpecHash != before })
		l.limited("nic", c.in, c.out)
	}
	if now := l.domainID(d); now != id {
		l.Errorf("it was started anew: %s, before %s", now, id)
	}
	for _, did := range l.actions(from) {
		if did != "tune nic" {
			l.Errorf("the agent did %s", did)
		}
	}
	l.only("nic")
	l.end()
}

// TestAVLANOnALinuxBridgeIsRefusedOnce: libvirt's words, what to do, and no try
// after try.
func TestAVLANOnALinuxBridgeIsRefusedOnce(t *testing.T) {
	l := startLane(t)
	l.write("tagged", spec("[[network]]\nbridge = \"virbr0\"\nvlan = 42\n"))
	p := l.waitProxy("tagged", "is refused", func(p status.Proxy) bool { return is(p, status.Synced, status.False, "ActionRefused") })
	c, _ := p.Condition(status.Synced)
	for _, piece := range []string{"vlan tag not supported", "ip link add"} {
		if !strings.Contains(c.Message, piece) {
			l.Errorf("no %q in: %s", piece, c.Message)
		}
	}
	l.drop("beside")
	l.running("beside")
	starts := 0
	for _, did := range l.actions(0) {
		if did == "start tagged" {
			starts++
		}
	}
	if starts != 1 {
		l.Errorf("%d starts, want one:\n%s", starts, l.agent.Tail(50))
	}
	l.end()
}

// TestADirectNICIsAMacvtap also checks that an interface that is not there is
// named.
func TestADirectNICIsAMacvtap(t *testing.T) {
	l := startLane(t)
	l.inside("sh", "-ec", "ip link add lab0 type veth peer name lab1; ip link set lab0 up; ip link set lab1 up")
	t.Cleanup(func() { l.inside("ip", "link", "del", "lab0") })
	direct := func(name string) string { return spec(fmt.Sprintf("[[network]]\ndirect = %q\n", name)) }
	l.write("direct", direct("lab0"))
	l.running("direct")
	if xml := l.virsh("dumpxml " + domxml.DomainName("direct")); !strings.Contains(xml, "<source dev='lab0' mode='bridge'/>") || !strings.Contains(xml, "macvtap") {
		l.Errorf("no macvtap on lab0:\n%s", xml)
	}
	l.write("astray", direct("nowhere0"))
	l.waitProxy("astray", "says what is missing", func(p status.Proxy) bool {
		c, _ := p.Condition(status.Synced)
		return c.Reason == "Retrying" && strings.Contains(c.Message, "nowhere0")
	})
	l.end()
}

func (l *lane) proxy(name string) status.Proxy {
	l.Helper()
	return l.waitProxy(name, "is shown", func(status.Proxy) bool { return true })
}

// limited checks the averages of a running proxy's NIC, now and after its next
// start, in thousands of bytes per second.
func (l *lane) limited(proxy string, in, out int) {
	l.Helper()
	for _, when := range []string{"--live", "--config"} {
		got := strings.Fields(l.virsh("domiftune " + domxml.DomainName(proxy) + " " + l.mac(proxy) + " " + when))
		text := strings.Join(got, " ")
		for _, want := range []string{fmt.Sprintf("inbound.average: %d ", in), fmt.Sprintf("outbound.average: %d ", out)} {
			if !strings.Contains(text, want) {
				l.Errorf("%s: no %q in %s", when, want, text)
			}
		}
	}
}
