//go:build libvirtd

package link

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// slackRSS is what memory may grow by between a warm agent and one at the end:
// the Go heap breathes by its own size (GOGC=100), and the race detector keeps
// a shadow of it.
const slackRSS = 32 << 20

// TestI15_ManyCyclesLeaveNothing runs many rounds of looks, lists, address
// reads and failing starts over one link and counts what libvirt and the
// kernel hold for it.
func TestI15_ManyCyclesLeaveNothing(t *testing.T) {
	l := newLane(t, setting{resync: "1s"})
	l.defineAll("net-define", map[string]string{"asleep": asleep, "unused": strings.ReplaceAll(asleep, "asleep", "unused")})
	t.Cleanup(func() { l.virsh("net-undefine asleep", "net-undefine unused") })
	l.start()
	l.drop("busy")
	l.write("fails", spec("[[network]]\nnetwork = \"asleep\"\n"))
	l.running("busy")
	l.waitProxy("fails", "fails to start", func(p status.Proxy) bool { return is(p, status.Synced, status.False, "Retrying") })
	l.defineAll("define", map[string]string{"passing": fmt.Sprintf(foreignXML, "passing", "")})

	cycles, from := soak(200, 2000), l.agent.LogSize()
	var early kit.Process
	for i := 0; i < cycles; i += perBatch {
		l.batch()
		if i == cycles/5 {
			l.rest()
			early = l.process()
		}
	}
	l.rest()
	late := l.process()
	failed := 0
	for _, line := range l.agent.Log(from) {
		if line["error"] != "" {
			failed++
		}
	}
	t.Logf("%d cycles, %d calls that failed; after a fifth: %s; at the end: %s", cycles, failed, early, late)
	if late.FDs > early.FDs+slackFDs || late.Threads > early.Threads+slackThreads || late.RSS > early.RSS+slackRSS {
		t.Errorf("it grew: %s, then %s", early, late)
	}
	if h := l.host(); h.Link.Connects != 1 || h.Link.Leaked != 0 {
		t.Errorf("link %+v; want the first one, and no leak", h.Link)
	}
	if ids := l.clients(); len(ids) != 3 {
		t.Errorf("libvirtd counts the connections %v; want three", ids)
	}
	if failed == 0 {
		t.Errorf("no call failed: the guest has no agent, and one proxy can not start")
	}
	l.end()
}

// perBatch is how many cycles one virsh process makes.
const perBatch = 10

// batch pauses and resumes a domain of ours, and lets a foreign one come and
// go: its look comes too late, and fails.
func (l *lane) batch() {
	l.Helper()
	var commands []string
	for range perBatch {
		commands = append(commands, "suspend egress-busy", "resume egress-busy",
			"undefine passing", "define "+l.place.Inside+"/define-passing.xml")
	}
	l.virsh(commands...)
}

// rest waits until no call is under way.
func (l *lane) rest() {
	l.Helper()
	l.running("busy")
	l.noHandles()
}

// noHandles waits until the agent holds nothing of libvirt's: an address read
// may be under way at any moment, a leak stays.
func (l *lane) noHandles() {
	l.Helper()
	l.await(patience, "no handle is held", func() bool { return l.host().Link.Handles == 0 })
}

// TestCase063_WrongURI: an agent whose libvirt is not there runs, says so and ends.
func TestCase063_WrongURI(t *testing.T) {
	l := newLane(t, setting{uri: "qemu+unix:///system?socket=/run/nobody-listens"})
	l.start()
	l.drop("waits")
	var c status.Condition
	l.wait("libvirt counts as not connected", func(h status.Host) bool {
		c, _ = h.Condition(status.LibvirtConnected)
		return c.Status == status.False && len(h.Proxies) == 1
	})
	t.Logf("%s %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
	l.waitProxy("waits", "is unknown", func(p status.Proxy) bool { return is(p, status.Running, status.Unknown, "CannotSee") })
	l.noActions(0, "without libvirt")
	if took := l.end(); took > 10*time.Second {
		t.Errorf("the agent needed %s to end", took)
	}
}
