package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
)

// crash is something an agent does in many steps, after each of which it may
// be killed.
type crash struct {
	from  func(h *crashHost) // what is there before, besides a proxy p that is well; without it there is no p
	act   func(h *crashHost) // what is asked of the agent, while it is not running
	order string             // or what an operator orders while it is
	want  picture            // what has to come of it
	// also holds at the end, however it came about.
	also func(h *crashHost) error
}

const (
	crashSpec  = "image = \"debian\"\nmachine_type = \"small\"\nuser_data = '''\n#cloud-config\n'''\n"
	leaveAlone = "skip_cleanup = true\n"
)

func crashes() map[string]crash {
	edited := strings.Replace(crashSpec, "#cloud-config", "#cloud-config\n# edited", 1)
	tombstone := "tombstone/" + domxml.DomainUUID(testIdentity.ID, "p") + ".json"
	left := func(state ...string) picture {
		return picture{nil, []string{"egress-p (p) running, autostart, of nobody"}, wellTree("debian", "OLD"), state}
	}
	ordered := left(append(slices.Clone(wellState), tombstone)...)
	ordered.Proxies = []string{"p Blocked Conflict"}
	nothing := func(h *crashHost) {}
	return map[string]crash{
		"create": {
			act:  func(h *crashHost) { h.spec(crashSpec) },
			want: thriving("debian", "NEW"),
		},
		"start": {
			from: func(h *crashHost) { h.must(h.conn.Destroy(h.t.Context(), h.uuid())) },
			act:  nothing,
			want: thriving("debian", "OLD"),
		},
		"restart with other memory": {
			from: nothing,
			act:  func(h *crashHost) { h.spec(strings.Replace(crashSpec, "small", "large", 1)) },
			want: thriving("debian", "OLD"),
			also: func(h *crashHost) error { return h.memory(320 << 10) },
		},
		"recreate": {
			from: nothing,
			act:  func(h *crashHost) { h.spec(edited) },
			want: thriving("debian", "NEW"),
		},
		"publish an image": { // and recreate on it, and collect the one before
			from: nothing,
			act: func(h *crashHost) {
				h.configure("other")
				h.spec(strings.Replace(crashSpec, "debian", "other", 1))
			},
			want: thriving("other", "NEW"),
		},
		"delete": {
			from: nothing,
			act:  func(h *crashHost) { h.unlist() },
			want: picture{nil, nil, []string{".egress-tree", "base/debian.qcow2"}, []string{".lock", "host/host.json", "staging/.egress-seed-staging"}},
		},
		"abandon by skip_cleanup": {
			from: func(h *crashHost) { h.spec(leaveAlone + crashSpec) },
			act:  func(h *crashHost) { h.unlist() },
			want: left(".lock", "host/host.json", "staging/.egress-seed-staging", tombstone),
			also: (*crashHost).untouched,
		},
		"abandon by order": {
			from:  nothing,
			order: "abandon p",
			want:  ordered,
			also:  (*crashHost).untouched,
		},
	}
}

// TestCrashPoints kills the agent after every single effect on files and on
// libvirt, starts it again, and wants the same as if nothing had happened:
// nothing leaked, nothing lost, nobody else's touched.
func TestCrashPoints(t *testing.T) {
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
	h.new = ""
	a := h.agent()
	if c.order == "" {
		c.act(h)
		a.tell("arm %d", n)
		a.tell("run")
	} else {
		a.tell("arm 0")
		a.tell("run")
		a.until(thriving("debian", "OLD"))
		a.tell("arm %d", n)
		a.tell("%s", c.order)
	}
	where := "undisturbed"
	if a.until(c.want); a.killed {
		killed, where = true, fmt.Sprintf("killed after effect %d (%s)", n, a.after())
		if err := h.intact(); err != nil {
			h.t.Errorf("%s: %v", where, err)
		}
		if ids := h.begun(); len(ids) > 0 {
			h.new = ids[0]
		}
		a = h.agent()
		a.tell("arm 0")
		a.tell("run")
		h.orderAgain(c, a)
		a.until(c.want)
	}
	r, _ := a.tell("status")
	a.stop()
	if d := cmp.Diff(c.want, h.picture(r.Status)); d != "" {
		h.t.Errorf("%s: (-want +got):\n%s\n%s", where, d, &a.log)
	}
	if c.also != nil {
		if err := c.also(h); err != nil {
			h.t.Errorf("%s: %v\n%s", where, err, &a.log)
		}
	}
	return r.Effects, killed
}

// orderAgain gives an order again that nobody has confirmed and that is not
// known any more: it counts wholly or not at all.
func (h *crashHost) orderAgain(c crash, a *agent) {
	h.t.Helper()
	if c.order == "" || slices.ContainsFunc(h.files("state"), func(f string) bool { return strings.HasPrefix(f, "tombstone/") && !strings.HasPrefix(f, "tombstone/.") }) {
		return
	}
	a.until(thriving("debian", "OLD"))
	a.tell("%s", c.order)
}

// until waits until the host is as wanted and the agent has come to rest, or
// the agent was killed.
func (a *agent) until(want picture) {
	a.h.t.Helper()
	const restful = 6 // looks in a row
	same, effects, diff := 0, -1, ""
	for deadline := time.Now().Add(patience); same < restful; {
		r, alive := a.tell("status")
		if !alive {
			return
		}
		if diff = cmp.Diff(want, a.h.picture(r.Status)); diff != "" || r.Effects != effects {
			same = 0
		}
		same, effects = same+1, r.Effects
		if time.Now().After(deadline) {
			a.h.t.Fatalf("not within %s (-want +got):\n%s\n%+v\n%s", patience, diff, r.Status.Proxies, &a.log)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (h *crashHost) uuid() string { return domxml.DomainUUID(testIdentity.ID, "p") }

func (h *crashHost) specFile() string { return filepath.Join(h.dir, "specs", "p.toml") }

func (h *crashHost) spec(text string) {
	h.t.Helper()
	h.must(os.WriteFile(h.specFile(), []byte(text), 0o644))
}

func (h *crashHost) unlist() { h.must(os.Remove(h.specFile())) }

// listed tells whether the spec says text.
func (h *crashHost) listed(text string) bool {
	b, err := os.ReadFile(h.specFile())
	h.must(err)
	return strings.Contains(string(b), text)
}

// image makes an image of a size.
func (h *crashHost) image(key, size string) {
	h.t.Helper()
	path := filepath.Join(filepath.Dir(h.dir), key+".qcow2")
	if out, err := exec.CommandContext(h.t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", path, size).CombinedOutput(); err != nil {
		h.t.Fatalf("qemu-img: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	h.must(err)
	sum := sha256.Sum256(b)
	if h.images == nil {
		h.images = map[string]string{}
	}
	h.images[key] = hex.EncodeToString(sum[:])
}

// configure writes a configuration that offers one image.
func (h *crashHost) configure(image string) {
	h.t.Helper()
	h.must(os.WriteFile(filepath.Join(h.dir, "config.toml"), fmt.Appendf(nil, `[host]
id = %q
[specs]
dir = "%[2]s/specs"
[tree]
root = "%[2]s/tree"
[state]
dir = "%[2]s/state"
[policy]
allowed_cidrs = ["192.168.0.0/16"] # the test driver counts on, past the network's end
[probe]
enabled = false
[machine_types.small]
cpus = 1
memory = "256MiB"
[machine_types.large]
cpus = 1
memory = "320MiB"
[images.%[3]s]
source = "%[5]s/%[3]s.qcow2"
sha256 = %[4]q
`, testIdentity.ID, h.dir, image, h.images[image], filepath.Dir(h.dir)), 0o644))
}

// memory is an error when p's domain has not that much, in KiB.
func (h *crashHost) memory(want int) error {
	for _, inactive := range []bool{false, true} {
		xml, err := h.conn.DomainXML(h.t.Context(), h.uuid(), inactive)
		if err != nil {
			return err
		}
		if text := fmt.Sprintf("<memory unit='KiB'>%d</memory>", want); !strings.Contains(xml, text) {
			return fmt.Errorf("inactive %t: no %s in %s", inactive, text, xml)
		}
	}
	return nil
}

// untouched is an error unless the abandoned VM is as it was.
func (h *crashHost) untouched() error {
	if d := cmp.Diff(h.kept, h.remains()); d != "" {
		return fmt.Errorf("the abandoned VM was changed (-before +after):\n%s", d)
	}
	return nil
}
