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
		"tune": {
			from: nothing,
			act:  func(h *crashHost) { h.spec(crashSpec + "[[network]]\nnetwork = \"default\"\noutbound = \"8Mbit/s\"\n") },
			want: thriving("debian", "OLD"),
			also: func(h *crashHost) error { return h.says("<outbound average='1000'/>") },
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

func (h *crashHost) uuid() string { return domxml.DomainUUID(testIdentity.ID, "p") }

func (h *crashHost) specFile() string { return filepath.Join(h.dir, "specs", "p.toml") }

func (h *crashHost) spec(text string) {
	h.t.Helper()
	h.must(os.WriteFile(h.specFile(), []byte(text), 0o644))
}

// unlist takes the one spec away, and confirms that: the directory is a copy,
// another one than that of before.
func (h *crashHost) unlist() {
	h.must(os.Remove(h.specFile()))
	h.must(os.WriteFile(filepath.Join(h.dir, "specs", ".empty"), nil, 0o644))
}

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
	return h.says(fmt.Sprintf("<memory unit='KiB'>%d</memory>", want))
}

// says is an error when text is not in what p's domain runs on, or not in what it
// starts with.
func (h *crashHost) says(text string) error {
	for _, inactive := range []bool{false, true} {
		xml, err := h.conn.DomainXML(h.t.Context(), h.uuid(), inactive)
		if err != nil {
			return err
		}
		if !strings.Contains(xml, text) {
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
