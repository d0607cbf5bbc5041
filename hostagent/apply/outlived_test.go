package apply

import (
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// TestI10_ARunningDomainKeepsTheHashOfItsVersion when its definition is made
// again; in any other case the claim has the hash that the definition is for.
func TestI10_ARunningDomainKeepsTheHashOfItsVersion(t *testing.T) {
	t.Parallel()
	want := spec.Hash{Version: 2, Incarnation: "i", Machine: "m"}
	old, edited := spec.Hash{Version: 1, Incarnation: "x", Machine: "y"}, spec.Hash{Version: 2, Incarnation: "i", Machine: "n"}
	for name, tt := range map[string]struct {
		there present
		claim spec.Hash
	}{
		"runs, made by another version": {present{spec: old}, old},
		"off, made by another version":  {present{spec: old, off: true}, want},
		"runs, made by this version":    {present{spec: edited}, want},
		"is not there":                  {present{}, want},
	} {
		if got := tt.there.madeOf(want); got != tt.claim {
			t.Errorf("%s: claim %s, want %s", name, got, tt.claim)
		}
	}
}
