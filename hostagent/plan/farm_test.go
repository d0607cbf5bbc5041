package plan

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// proxiesWorld has n proxies p0, p1 … that run as their specs ask.
func proxiesWorld(t *testing.T, n int) (*world, []spec.Spec) {
	w := newWorld(t)
	var specs []spec.Spec
	for i := range n {
		s := w.spec(fmt.Sprintf("p%d", i))
		specs = append(specs, s)
		w.incarnate(s, instanceOf(i))
		w.domain(s, instanceOf(i), observe.PowerRunning)
	}
	w.list(1, t0, specs...)
	w.Observed.Sightings = map[string][]observe.Sighting{}
	w.Observed.Probes = map[string]Probe{}
	for i, s := range specs {
		w.serve(s.Name, i)
	}
	w.make()
	return w, specs
}

func instanceOf(i int) string { return fmt.Sprintf("i-%016x", i+1) }

// serve lets a proxy have an address and answer its probe from now on.
func (w *world) serve(name string, i int) {
	addr := netip.AddrFrom4([4]byte{192, 168, 122, byte(10 + i)})
	mac := domxml.MAC(host, domxml.Identity(name, w.Generations[name]), 0)
	w.Observed.Sightings[name] = []observe.Sighting{{Claim: observe.Claim{MAC: mac, Addr: addr, Source: observe.FromLease}, Seen: w.Now}}
	w.Observed.Probes[name] = Probe{Target: netip.AddrPortFrom(addr, 3128), OK: true, At: w.Now}
}

// drop lists all but the first n specs, twice, the deletion delay apart.
func (w *world) drop(n int, specs []spec.Spec) Result {
	seq := w.Desired.Sources[0].Seq
	w.list(seq+1, w.Now, specs[n:]...)
	w.make()
	w.pass(40 * time.Second)
	w.list(seq+2, w.Now, specs[n:]...)
	return w.make()
}

// pass lets time go by; who serves goes on serving.
func (w *world) pass(d time.Duration) {
	w.Now = w.Now.Add(d)
	for name, p := range w.Observed.Probes {
		p.At = w.Now
		w.Observed.Probes[name] = p
		w.Observed.Sightings[name][0].Seen = w.Now
	}
}

// obey gives an order that has to be obeyed.
func (w *world) obey(last Result, o order.Order) string {
	w.t.Helper()
	m, text, err := Obey(w.Input, last, o)
	if err != nil {
		w.t.Fatalf("%s: %v", o, err)
	}
	w.Memory = m
	return text
}

// refuse gives an order that must be refused, and leave everything as it is.
func (w *world) refuse(last Result, o order.Order) error {
	w.t.Helper()
	_, text, err := Obey(w.Input, last, o)
	if err == nil {
		w.t.Fatalf("%s was obeyed: %s", o, text)
	}
	return err
}

// restart keeps of the memory what outlasts a restart.
func (w *world) restart() {
	m := Memory{KeptHost: w.Memory.KeptHost, Tombstones: w.Memory.Tombstones, Proxies: map[string]Proxy{}}
	for name, p := range w.Memory.Proxies {
		m.Proxies[name] = Proxy{Kept: p.Kept, Last: p.Last}
	}
	w.Memory = m.Restored(w.Now)
}

// acted lists actions as "kind name".
func acted(r Result) []string {
	var out []string
	for _, a := range r.Actions {
		out = append(out, string(a.Kind)+" "+a.Name)
	}
	return out
}

func (w *world) shown(r Result, name string) status.Proxy {
	w.t.Helper()
	for _, p := range r.Proxies {
		if p.Name == name {
			return p
		}
	}
	w.t.Fatalf("no proxy %s in %+v", name, r.Proxies)
	return status.Proxy{}
}

func (w *world) wantHost(r Result, typ string, want status.Truth, reason string) {
	w.t.Helper()
	for _, c := range r.Host {
		if c.Type == typ && (c.Status != want || c.Reason != reason) {
			w.t.Errorf("%s is %s (%s: %s), want %s (%s)", typ, c.Status, c.Reason, c.Message, want, reason)
		}
	}
}
