//go:build libvirt_dlopen

package virt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// withoutLibrary marks the run of the test binary that has no libvirt.
const withoutLibrary = "VIRT_TEST_WITHOUT_LIBRARY"

// Without libvirt's library the agent starts, says what to install, and does
// not crash. The binding loads it once for a process, so another one is needed.
func TestNoLibraryIsAClearError(t *testing.T) {
	if os.Getenv(withoutLibrary) != "" {
		c := New(Options{URI: "test:///default"})
		err := c.Run(t.Context())
		_, listErr := c.ListDomains(t.Context())
		if err == nil || !strings.Contains(err.Error(), "libvirt0") || !strings.Contains(err.Error(), "libvirt-libs") {
			t.Errorf("Run: %v", err)
		}
		if observe.ClassOf(listErr) != observe.Disconnected || !strings.Contains(listErr.Error(), "libvirt0") {
			t.Errorf("ListDomains: %v", listErr)
		}
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"libvirt.so.0", "libvirt-admin.so.0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoLibraryIsAClearError$", "-test.v")
	cmd.Env = append(os.Environ(), withoutLibrary+"=1", "LD_LIBRARY_PATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNoLibraryIsAClearError") {
		t.Errorf("%v\n%s", err, out)
	}
}
