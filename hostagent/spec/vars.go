package spec

import (
	"errors"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// decodeVars reads the [vars] table by the seed's own rules. Its problems show
// no value.
func decodeVars(t *doc.Table) map[string]Secret {
	var out map[string]Secret
	for _, key := range t.Keys() {
		value, ok := t.String(key)
		err := seed.CheckVar(key, value)
		if input, is := errors.AsType[*seed.InputError](err); is {
			t.Fail(key, "%s", input.Problem)
		}
		if !ok || err != nil {
			continue
		}
		if out == nil {
			out = map[string]Secret{}
		}
		out[key] = Secret(value)
	}
	return out
}
