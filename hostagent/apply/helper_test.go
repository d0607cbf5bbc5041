package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// second makes an action one about the second VM of the name.
func second(a plan.Action) plan.Action {
	a.Generation, a.UUID = 1, domxml.DomainUUID(hostID, domxml.Identity(a.Name, 1))
	a.Instance, a.Domain = "i-0000000000000002", a.Domain+"-2"
	return a
}

// record gives the record of the action's incarnation.
func (b *bench) recordOf(a plan.Action) observe.Record {
	b.t.Helper()
	inc, ok := b.incarnation(a)
	if !ok || inc.Record == nil {
		b.t.Fatalf("no record of %s: %+v", a.Instance, inc)
	}
	return *inc.Record
}

// claim gives the domain's ownership metadata.
func (b *bench) claim(uuid string) string {
	d, _ := b.hv.Domain(uuid)
	return d.Metadata
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func qemuImg(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v: %s", args, err, out)
	}
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
