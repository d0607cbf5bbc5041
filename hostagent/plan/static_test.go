package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// at gives a spec static addresses.
func at(s spec.Spec, addrs ...string) spec.Spec {
	n := spec.NIC{Network: nat}
	for _, a := range addrs {
		n.Addresses = append(n.Addresses, netip.MustParsePrefix(a+"/24"))
	}
	s.Networks = []spec.NIC{n}
	return s
}

func TestI17_OneStaticAddressIsOneProxys(t *testing.T) {
	t.Parallel()
	const x, y, z = "192.168.122.50", "192.168.122.51", "192.168.122.52"
	type proxy struct {
		name  string
		has   []string
		runs  []string // static addresses it runs with; nil: there is none
		power observe.Power
	}
	for _, c := range []struct {
		name    string
		proxies []proxy
		want    []string
		blocked map[string]string // name -> the other
	}{
		{"each its own", []proxy{{name: "a", has: []string{x}}, {name: "b", has: []string{y}}}, []string{"prepare a", "prepare b"}, nil},
		{"the first by name is made", []proxy{{name: "a", has: []string{x}}, {name: "b", has: []string{x}}},
			[]string{"prepare a"}, map[string]string{"b": "a"}},
		{"what is there keeps it", []proxy{{name: "a", has: []string{x}}, {name: "b", has: []string{x}, runs: []string{x}}},
			nil, map[string]string{"a": "b"}},
		{"even while it is off", []proxy{{name: "a", has: []string{x}}, {name: "b", has: []string{x}, runs: []string{x}, power: observe.PowerOff}},
			[]string{"start b"}, map[string]string{"a": "b"}},
		{"who is not made takes nothing", []proxy{{name: "a", has: []string{x}}, {name: "b", has: []string{x, y}}, {name: "c", has: []string{y}}},
			[]string{"prepare a", "prepare c"}, map[string]string{"b": "a"}},
		{"an edit to another's address waits, and the guest runs on",
			[]proxy{{name: "a", has: []string{x}, runs: []string{z}}, {name: "b", has: []string{x}, runs: []string{x}}},
			nil, map[string]string{"a": "b"}},
		{"two that run with it run on", []proxy{{name: "a", has: []string{x}, runs: []string{x}}, {name: "b", has: []string{x}, runs: []string{x}}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var specs []spec.Spec
			for i, p := range c.proxies {
				s := w.spec(p.name)
				specs = append(specs, at(s, p.has...))
				if p.runs == nil {
					continue
				}
				if p.power == "" {
					p.power = observe.PowerRunning
				}
				if s = at(s, p.runs...); p.runs[0] != p.has[0] {
					s.UserData = spec.Secret("#cloud-config\n# before the edit\n")
				}
				w.incarnate(s, instanceOf(i))
				w.domain(s, instanceOf(i), p.power)
			}
			w.list(2, t0, specs...)
			r := w.make()
			if diff := cmp.Diff(c.want, acted(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range r.Proxies {
				got, _ := p.Condition(status.Synced)
				if other, blocked := c.blocked[p.Name]; blocked != (got.Reason == "AddressConflict") || !strings.HasSuffix(strings.TrimSuffix(got.Message, " of this host"), other) {
					t.Errorf("%s: %s: %s", p.Name, got.Reason, got.Message)
				}
			}
		})
	}
}

// A spec that goes frees the address when its VM is gone, not before.
func TestAnAddressIsFreeWhenItsVMIsGone(t *testing.T) {
	t.Parallel()
	const x = "192.168.122.50"
	w := newWorld(t)
	old, now := at(w.spec("old"), x), at(w.spec("a"), x)
	w.incarnate(old, inst)
	w.domain(old, inst, observe.PowerRunning)
	w.list(2, t0, old)
	w.make()
	w.list(3, t0, now)
	r := w.make()
	w.wantActed(r)
	w.wantCondition(r, "a", status.Synced, status.False, "AddressConflict")
	clear(w.Observed.Domains)
	clear(w.Observed.Tree.Incarnations)
	w.wantActed(w.make(), "prepare a")
}

func TestAStaticAddressNeedsNoSubnet(t *testing.T) {
	t.Parallel()
	w, specs := proxiesWorld(t, 1)
	s := at(specs[0], "192.168.122.10")
	clear(w.Observed.Prefixes)
	w.domain(s, instanceOf(0), observe.PowerRunning)
	w.list(2, w.Now, s)
	w.wantCondition(w.make(), "p0", status.Addressed, status.True, "FromLease")
}
