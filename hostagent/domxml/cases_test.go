package domxml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// socketPath is the longest path of a unix socket, without its final NUL.
const socketPath = 107

// TestCase027_TheAgentsChannelFits: libvirt names the socket, with the domain's
// name cut to 20 characters; the agent must not name a path of its own. Names
// that are too long do not become domains.
func TestCase027_TheAgentsChannelFits(t *testing.T) {
	t.Parallel()
	for length, legal := range map[int]bool{1: true, 32: true, 63: true, 128: false, 300: false} {
		name := strings.Repeat("a", length)
		if err := spec.CheckName(spec.KindProxy, name); (err == nil) != legal {
			t.Errorf("a name of %d: %v", length, err)
		}
		if !legal {
			continue
		}
		in := input(TCG)
		in.DomainName = DomainName(name)
		text, err := Generate(in)
		if err != nil {
			t.Fatal(err)
		}
		channel := text[strings.Index(text, "<channel"):strings.Index(text, "</channel>")]
		if strings.Contains(channel, "path=") || !strings.Contains(channel, "org.qemu.guest_agent.0") {
			t.Errorf("a name of %d: %s", length, channel)
		}
		made := fmt.Sprintf("/var/lib/libvirt/qemu/channel/target/domain-%d-%.20s/org.qemu.guest_agent.0", 1<<31-1, in.DomainName)
		if len(made) > socketPath {
			t.Errorf("a name of %d makes a path of %d", length, len(made))
		}
	}
}

func TestMACs(t *testing.T) {
	t.Parallel()
	text, err := Generate(input(TCG))
	if err != nil {
		t.Fatal(err)
	}
	in := input(TCG)
	var want []string
	for n := range in.Spec.Networks {
		want = append(want, MAC(in.Owner.Host, in.Owner.Name, n))
	}
	got, err := MACs(text)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := MACs("<domain"); err == nil {
		t.Error("broken XML was taken")
	}
}
