//go:build libvirtd

package link

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// Slack of what must not grow from cycle to cycle: a leak of one a cycle is
// past it at the least number of cycles. The Go runtime adds a thread now and
// then when calls into libvirt overlap; descriptors come and go with clients
// of the control socket and with reads of the image tree.
const (
	slackFDs     = 3
	slackThreads = 6
)

// TestI01_I10_RestartsOfLibvirtdChangeNothing restarts libvirtd under ten
// running proxies while specs change.
func TestI01_I10_RestartsOfLibvirtdChangeNothing(t *testing.T) {
	l := newLane(t, setting{callTimeout: "30s"}) // libvirtd is killed, it does not hang
	l.start()
	names := numbered("p", 10)
	l.drop(names...)
	l.running(names...)
	r := &restarts{lane: l, names: names, before: l.picture(domains(names)...), from: l.agent.LogSize()}
	cycles := soak(10, 50)
	var early kit.Process
	for i := range cycles {
		r.cycle(i, cycles)
		if i == 1 {
			early = l.process()
		}
		t.Logf("restart %d: link up %s after libvirtd answers; %s", i+1, r.lastLink.Round(time.Millisecond), l.process())
	}
	late := l.process()
	t.Logf("after cycle 2: %s; after cycle %d: %s", early, cycles, late)
	t.Logf("link up again at most %s after libvirtd answers; an event is shown at most %s after it",
		r.slowestLink.Round(time.Millisecond), r.slowestEvent.Round(time.Millisecond))
	if late.FDs > early.FDs+slackFDs || late.Threads > early.Threads+slackThreads {
		t.Errorf("descriptors or threads grew: %s, then %s", early, late)
	}
	l.gone("extra")
	l.nothing("extra")
	l.noActions(r.from, "over all restarts", "extra")
	l.end()
}

// restarts is a series of restarts of libvirtd.
type restarts struct {
	*lane
	names                     []string
	before                    picture
	from                      int64 // where the agent's log then was
	slowestLink, slowestEvent time.Duration
	lastLink                  time.Duration
}

// cycle is one restart: edits while libvirtd is down, then all that must hold
// when it is up again.
func (r *restarts) cycle(i, cycles int) {
	r.Helper()
	signal := []string{"KILL", "TERM"}[i%2]
	connects := r.host().Link.Connects
	if i == cycles-2 {
		r.running("extra")
		r.only("extra")
	}
	if err := r.place.Down(signal); err != nil {
		r.Fatal(err)
	}
	r.edit(i, cycles)
	r.wait("the loss is shown", func(h status.Host) bool { return !connected(h) })
	if err := r.place.Up(); err != nil {
		r.Fatal(err)
	}
	began := time.Now()
	r.await(patience, "the link is up", func() bool { return connected(r.host()) })
	r.lastLink = time.Since(began)
	r.slowestLink = max(r.slowestLink, r.lastLink)
	when := fmt.Sprintf("after restart %d (%s)", i+1, signal)
	r.running(r.names...)
	if l := r.host().Link; l.Connects != connects+1 || l.Connections != 3 || l.Leaked != 0 || !l.Connected {
		r.Errorf("%s: link %+v; want connects=%d connections=3 leaked=0", when, l, connects+1)
	}
	if ids := r.clients(); len(ids) != 3 {
		r.Errorf("%s: libvirtd counts the connections %v; want three", when, ids)
	}
	r.same(r.before, when, domains(r.names)...)
	r.event(i)
}

// edit changes specs in ways that change nothing of the ten; one more proxy
// comes in the second cycle and goes in the last but one.
func (r *restarts) edit(i, cycles int) {
	r.Helper()
	n := len(r.names)
	label := fmt.Sprintf("[labels]\ncycle = \"%d\"\n", i)
	r.write(r.names[i%n], spec(label))
	r.write(r.names[(i+1)%n], fmt.Sprintf("# edited %d times\n", i)+spec(""))
	r.touch(r.names[(i+2)%n])
	switch i {
	case 1:
		r.drop("extra")
	case cycles - 2:
		r.remove("extra")
	}
}

// event checks that one of libvirt's comes through the new link.
func (r *restarts) event(i int) {
	r.Helper()
	name := r.names[i%len(r.names)]
	for _, step := range []struct {
		command string
		shown   func(status.Proxy) bool
	}{{"suspend egress-" + name, paused}, {"resume egress-" + name, runs}} {
		r.virsh(step.command)
		began := time.Now()
		r.await(patience, step.command+" is shown", func() bool {
			ps := r.host().Proxies
			i := slices.IndexFunc(ps, func(p status.Proxy) bool { return p.Name == name })
			return i >= 0 && step.shown(ps[i])
		})
		r.slowestEvent = max(r.slowestEvent, time.Since(began))
	}
}

func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i+1))
	}
	return out
}
