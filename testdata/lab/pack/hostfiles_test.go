//go:build package

package pack

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/program"
)

// proxies are the specs that the machine gets.
var proxies = []string{"a", "b", "c"}

// tree is the image tree's directory.
const tree = "/var/lib/libvirt/images/egress"

// startInterval is what the configuration below sets, in seconds.
const startInterval = 3

// hostConfig is the agent's configuration; %s are the image's path and digest.
const hostConfig = `[libvirt]
acceleration = "tcg"

[probe]
enabled = false

[limits]
resync = "5s"
start_interval = "3s"
disk_reserve = "64MiB"
memory_reserve = "64MiB"

[images.debian-12]
source = %q
sha256 = %q

[machine_types.tiny]
cpus = 1
memory = "128MiB"
`

// hostSpec is each proxy's.
const hostSpec = `image = "debian-12"
machine_type = "tiny"
user_data = "#cloud-config\n"
install_guest_agent = false
`

// hostFiles makes a directory with an image, the configuration and a spec.
func hostFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, err := program.Build(dir, program.Button)
	if err != nil {
		t.Fatal(err)
	}
	disk, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	// Where the agent finds it: /tmp is not its /tmp.
	config := fmt.Sprintf(hostConfig, "/srv/"+filepath.Base(image), fmt.Sprintf("%x", sha256.Sum256(disk)))
	for name, text := range map[string]string{"config.toml": config, "spec.toml": hostSpec} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
