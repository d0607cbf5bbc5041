//go:build package

package pack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// machine boots a container without libvirtd; released are the packages that
// it sees, in /srv/released.
func machine(t *testing.T, released string) *host {
	t.Helper()
	h := &host{T: t, box: holdBox(t, "package", released)}
	h.sh(`ln -s "$1" /srv/released`, released)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := h.try(`journalctl --no-pager --priority=info --lines=150 --output=short-precise`)
			t.Logf("the machine's journal:\n%s", log)
		}
	})
	return h
}

// part is a piece of a machine's life.
type part struct {
	name string
	run  func(*host)
}

// live runs parts one after the other: each stands on those before it.
func (h *host) live(t *testing.T, parts []part) {
	for _, p := range parts {
		if !t.Run(p.name, func(t *testing.T) { p.run(h.in(t)) }) {
			t.Fatalf("%s failed: what comes after it stands on it", p.name)
		}
	}
}

// is checks a property of the agent's unit.
func (h *host) has(property, want string) {
	h.Helper()
	if got := h.property(property); got != want {
		h.Errorf("%s of the unit is %q, want %q", property, got, want)
	}
}

// stands is what systemctl says of the unit: enabled, and active.
func (h *host) stands() string {
	h.Helper()
	out, _ := h.try(`systemctl is-enabled "$1" || true; systemctl is-active "$1" || true`, unit)
	return strings.ReplaceAll(out, "\n", " ")
}

// pid is the agent's process.
func (h *host) pid() string {
	h.Helper()
	return h.property("MainPID")
}

// readme gives the commands that README.md has an operator type on Debian.
func readme(t *testing.T) []string {
	t.Helper()
	repo, err := kit.Repo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repo, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, install, _ := strings.Cut(string(text), "\n## Install\n")
	install, _, _ = strings.Cut(install, "\n## ")
	_, block, _ := strings.Cut(install, "```sh\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("README.md has no ```sh block below its heading Install")
	}
	return strings.Split(strings.TrimSpace(block), "\n")
}
