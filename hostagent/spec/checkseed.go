package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// checkSeed reports what the seed's builder would refuse, at the key that gives
// it, so that nothing is made of a spec whose guest can not be seeded.
func checkSeed(t *doc.Table, s Spec) {
	mac := func(n int) string { return fmt.Sprintf("52:54:00:00:00:%02x", n) } // only its form counts here
	err := s.SeedInput("i-0000000000000000", mac).Validate()
	for _, err := range unjoin(err) {
		input, ok := errors.AsType[*seed.InputError](err)
		if !ok {
			t.Fail("", "%v", err)
			continue
		}
		switch input.Field {
		case seed.UserDataFile:
			t.Fail(keyOf(t, userDataBlob), "%s", input.Problem)
		case seed.VendorDataFile:
			t.Fail(keyOf(t, vendorDataBlob), "%s", input.Problem)
		case seed.MetaDataFile:
			t.Fail("vars", "make a meta-data document that %s", input.Problem)
		case seed.NetworkConfigFile:
			key := "network"
			if len(s.NetworkConf) > 0 {
				key = keyOf(t, networkConfBlob)
			}
			t.Fail(key, "%s", input.Problem)
		default:
			t.Fail("", "%s: %s", strings.ReplaceAll(input.Field, "\n", " "), input.Problem)
		}
	}
}

func keyOf(t *doc.Table, b blob) string {
	if given := b.given(t); len(given) > 0 {
		return given[0]
	}
	return b.key
}

// unjoin gives the errors that errors.Join put together.
func unjoin(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
