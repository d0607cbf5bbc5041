package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// TestCase036_AClashIsFoundBeforeDefine: libvirt takes two domains with one MAC.
func TestCase036_AClashIsFoundBeforeDefine(t *testing.T) {
	t.Parallel()
	own := domxml.MAC(hostID, "p", 0)
	for mac, clash := range map[string]bool{own: true, strings.ToUpper(own): true, "52:54:00:00:00:01": false} {
		b := newBench(t)
		b.hv.AdminDefine(fmt.Sprintf(`<domain type="test"><name>other</name><devices>
			<interface type="network"><mac address="52:54:00:00:00:09"/><source network="default"/></interface>
			<interface type="network"><mac address="%s"/><source network="default"/></interface></devices></domain>`, mac))
		b.do(plan.Prepare)
		err := b.Run(t.Context(), b.action(plan.Define))
		_, defined := b.hv.Domain(b.action("").UUID)
		if defined == clash || clash && observe.ClassOf(err) != observe.Clash {
			t.Errorf("other domain with %s: defined %t, %v", mac, defined, err)
		}
	}
}

// A proxy's own MACs, and those of other proxies, are no clash.
func TestCase036_ProxiesDoNotClash(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do(plan.Prepare, plan.Define)
	second := second(b.action(plan.Define))
	prepare := second
	prepare.Kind = plan.Prepare
	b.NewInstance = func() string { return second.Instance }
	for _, a := range []plan.Action{prepare, second, b.action(plan.Define)} {
		if err := b.Run(t.Context(), a); err != nil {
			t.Errorf("%s %s: %v", a.Kind, a.Domain, err)
		}
	}
}

// TestOthersAreLookedAtForNewNetworksOnly: a definition on the networks of
// before, with other memory say, asks nothing about the rest of the host.
func TestOthersAreLookedAtForNewNetworksOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hv.AdminDefine(`<domain type="test"><name>other</name></domain>`)
	b.do(plan.Prepare, plan.Define)
	if n := b.hv.Calls()["ListDomains"]; n != 1 {
		t.Errorf("the first definition listed the domains %d times", n)
	}
	more, spec := b.action(plan.Define), *b.action(plan.Define).Spec
	spec.Memory *= 2
	more.Spec, more.Hash = &spec, spec.Hash()
	if err := b.Run(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	if n := b.hv.Calls()["ListDomains"]; n != 1 {
		t.Errorf("one with other memory listed them %d times more", n-1)
	}
}
