package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestI05_I08_CrashPoints kills the agent after every single effect on files and on
// libvirt, starts it again, and wants the same as if nothing had happened:
// nothing leaked, nothing lost, nobody else's touched.
func TestI05_I08_CrashPoints(t *testing.T) {
	for name, c := range crashes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			h := c.begin(t)
			theirs := h.theirs()
			total, _ := h.once(c, 0)
			n := 1
			for killed := true; killed && !t.Failed(); n++ {
				h.restore()
				_, killed = h.once(c, n)
				if d := cmp.Diff(theirs, h.theirs()); d != "" {
					t.Errorf("killed after effect %d: domains of others changed (-before +after):\n%s", n, d)
				}
			}
			if n < total/2 { // what is saved at once and what one after the other is left to chance
				t.Errorf("it was killed after %d effects only; undisturbed, it has %d", n-2, total)
			}
			t.Logf("%s: %d effects, killed after each of %d, %.1f s", name, total, n-2, time.Since(began).Seconds())
		})
	}
}

// An abandoned VM keeps its name; once it is gone the spec that still asks for
// the name gets another VM, and the files of the first one stay.
func TestI05_AnAbandonedNameIsFreeOnceItsVMIsGone(t *testing.T) {
	t.Parallel()
	c := crashes()["abandon by order"]
	h := c.begin(t)
	h.once(c, 0)
	h.must(h.conn.Destroy(t.Context(), h.uuid()))
	h.must(h.conn.Undefine(t.Context(), h.uuid()))
	want := thriving("debian", "NEW")
	want.Domains = []string{strings.Replace(want.Domains[0], "(p)", "(p~1)", 1)}
	want.Tree = append(want.Tree, "console/p~1.log", "disk/p.OLD.json", "disk/p.OLD.qcow2", "seed/p.OLD.iso")
	slices.Sort(want.Tree)
	want.State = c.want.State
	h.live(want)
}

// begin makes the host as it is before, and keeps a copy.
func (c crash) begin(t *testing.T) *crashHost {
	h := newCrashHost(t)
	h.image("debian", "1G")
	h.image("other", "2G")
	h.configure("debian")
	if c.from != nil {
		h.spec(crashSpec)
		h.live(thriving("debian", "NEW"))
		h.old = h.begun()[0]
		log := filepath.Join(h.dir, "tree", "console", "p.log")
		h.must(os.WriteFile(log, []byte("booted\n"), 0o640))
		c.from(h)
		if h.listed(leaveAlone) {
			h.live(thriving("debian", "OLD"))
		}
		h.kept = h.remains()
	}
	h.save()
	return h
}

// live lets an agent work undisturbed until the host is as wanted.
func (h *crashHost) live(want picture) {
	h.t.Helper()
	a := h.agent()
	a.tell("arm 0")
	a.tell("run")
	a.until(want)
	a.stop()
}

// once lets an agent do it and kills that after n effects, and another one,
// which is not killed, finish. n of 0 kills nobody. It gives how many effects
// the last agent had, and whether the first one was killed.
func (h *crashHost) once(c crash, n int) (effects int, killed bool) {
	h.t.Helper()
	h.new, h.where = "", "undisturbed"
	a := h.victim(c, n)
	if a.until(c.want); a.killed {
		killed, h.where = true, fmt.Sprintf("killed after effect %d (%s)", n, a.after())
		if err := h.intact(); err != nil {
			h.t.Errorf("%s: %v", h.where, err)
		}
		a = h.successor(c)
		a.until(c.want)
	}
	r, _ := a.tell("status")
	a.stop()
	if d := cmp.Diff(c.want, h.picture(r.Status)); d != "" {
		h.t.Errorf("%s: (-want +got):\n%s\n%s", h.where, d, &a.log)
	}
	if c.also != nil {
		if err := c.also(h); err != nil {
			h.t.Errorf("%s: %v\n%s", h.where, err, &a.log)
		}
	}
	return r.Effects, killed
}

// victim runs an agent that is killed after n effects of what is asked.
func (h *crashHost) victim(c crash, n int) *agent {
	h.t.Helper()
	a := h.agent()
	if c.order == "" {
		c.act(h)
		a.tell("arm %d", n)
		a.tell("run")
		return a
	}
	a.tell("arm 0")
	a.tell("run")
	a.until(thriving("debian", "OLD"))
	a.tell("arm %d", n)
	a.tell("%s", c.order)
	return a
}

// successor runs an agent after one was killed. A guest that was complete is the
// one it has to use. An order that nobody confirmed counts wholly or not at all:
// in that case it is given again.
func (h *crashHost) successor(c crash) *agent {
	h.t.Helper()
	if ids := h.begun(); len(ids) > 0 {
		h.new = ids[0]
	}
	known := slices.ContainsFunc(h.files("state/tombstone"), func(f string) bool { return !strings.HasPrefix(f, ".") })
	a := h.agent()
	a.tell("arm 0")
	a.tell("run")
	if c.order != "" && !known {
		a.until(thriving("debian", "OLD"))
		a.tell("%s", c.order)
	}
	return a
}
