package virttest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// DefaultNetwork is the libvirt network that the Fake and a node file have.
const DefaultNetwork = "default"

// DefaultPrefix is DefaultNetwork's subnet.
func DefaultPrefix() netip.Prefix { return netip.MustParsePrefix("192.168.122.0/24") }

// Foreign is a domain that belongs to somebody else.
type Foreign struct {
	Name, UUID string
	Power      observe.Power
	XML        string
}

// ForeignDomains gives domains that were on the host before: one in each power
// state, one with metadata of another program.
func ForeignDomains() []Foreign {
	var out []Foreign
	for i, f := range []Foreign{
		{Name: "foreign-running", Power: observe.PowerRunning},
		{Name: "foreign-paused", Power: observe.PowerPaused},
		{Name: "foreign-off", Power: observe.PowerOff},
	} {
		f.UUID = fmt.Sprintf("f0000000-0000-4000-8000-%012d", i)
		f.XML = fmt.Sprintf(foreignXML, f.Name, f.UUID, i)
		out = append(out, f)
	}
	return out
}

const foreignXML = `<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <name>%s</name>
  <uuid>%s</uuid>
  <metadata><other:vm xmlns:other="https://other.example/vm" owner="somebody"><other:note>hands off</other:note></other:vm></metadata>
  <memory unit='KiB'>65536</memory>
  <os><type>hvm</type></os>
  <devices><interface type='network'><mac address='52:54:00:ff:00:0%d'/><source network='default'/></interface></devices>
</domain>`

// Preload puts foreign domains into the Fake, in their power state.
func (f *Fake) Preload(domains ...Foreign) {
	for _, d := range domains {
		f.AdminDefine(d.XML)
		if d.Power != observe.PowerOff {
			f.AdminStart(d.UUID)
		}
		if d.Power == observe.PowerPaused {
			f.AdminPause(d.UUID)
		}
	}
}

// runStates are the test driver's numbers of power states.
var runStates = map[observe.Power]int{observe.PowerRunning: 1, observe.PowerPaused: 3, observe.PowerOff: 5}

// NodeURI writes a node file with the domains and DefaultNetwork for libvirt's
// test driver and gives the URI to open it with. Each connection to such a URI
// has a state of its own.
func NodeURI(t testing.TB, domains ...Foreign) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("<node>\n")
	for _, d := range domains {
		state := fmt.Sprintf("<test:runstate>%d</test:runstate></domain>\n", runStates[d.Power])
		b.WriteString(strings.TrimSuffix(d.XML, "</domain>") + state)
	}
	fmt.Fprintf(&b, networkXML, DefaultNetwork)
	b.WriteString("</node>\n")
	path := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "test://" + path
}

const networkXML = `<network>
  <name>%s</name>
  <uuid>f0000000-0000-4000-8000-0000000000ff</uuid>
  <forward mode='nat'/>
  <bridge name='virbr0'/>
  <ip address='192.168.122.1' netmask='255.255.255.0'><dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp></ip>
</network>
`
