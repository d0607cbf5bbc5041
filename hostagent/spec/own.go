package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// own gives Spec.Own: a digest of every key by which the document can change
// Hash. A key that is not given leaves no trace in it, so that a key added by a
// later release changes no document's digest. Sizes count in bytes and
// user-data, vendor data and network-config by their content, however they were
// written. The name is not in it:
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
		n.used(func(name, value string) { field(h, name, value) })
		n.limits(func(name, value string) { field(h, name, value) })
		n.static(func(name, value string) { field(h, name, value) })
	}
	for _, b := range []struct {
		blob
		data Secret
	}{{userDataBlob, d.userData}, {vendorDataBlob, d.vendorData}, {networkConfBlob, d.networkConf}} {
		if len(b.given(t)) > 0 {
			sum := sha256.Sum256(b.data)
			field(h, b.key, hex.EncodeToString(sum[:]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.vars)) {
		field(h, "vars."+key, string(d.vars[key]))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
