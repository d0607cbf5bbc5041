package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// own gives Spec.Own: a digest of every key by which the document can change
// Hash. A key that is not given leaves no trace in it, so that a key added by a
// later release changes no document's digest. Sizes count in bytes and
// user-data by its content, however they were written. The name is not in it:
// digests are compared for one proxy.
//
// A release that changes the result for documents it has accepted before makes
// every change by the config look like one by the specs.
func (d *draft) own(t *doc.Table) string {
	h := sha256.New()
	given := func(key, value string) {
		if t.Has(key) {
			field(h, key, value)
		}
	}
	given("image", d.image)
	given("machine_type", d.machineType)
	given("cpus", strconv.Itoa(d.cpus))
	given("memory", strconv.FormatInt(int64(d.memory), 10))
	given("disk", strconv.FormatInt(int64(d.disk), 10))
	given("install_guest_agent", strconv.FormatBool(d.guestAgent))
	for _, n := range d.networks {
		field(h, "network", n.Network.Network)
		field(h, "bridge", n.Bridge)
	}
	if slices.ContainsFunc(userDataKeys, t.Has) {
		sum := sha256.Sum256(d.userData)
		field(h, "user_data", hex.EncodeToString(sum[:]))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
