package image

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// TestCase025_NothingOutsideTheTree: a name that is a path, or no name at all,
// makes, changes and removes nothing anywhere.
func TestCase025_NothingOutsideTheTree(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	around := filepath.Dir(tree.root)
	before := state(t, around)
	for _, bad := range []string{"a/b", "../../etc/cron.d/x", "..", ".", "-rf", "", "a\x00b", "a\nb", " a", "a ", "/a", "../x", "a⁄b"} {
		for _, at := range []struct{ name, instance string }{{bad, testInst}, {"a", bad}} {
			rec := testRecord(at.name, at.instance)
			for what, err := range map[string]error{
				"record":  tree.WriteRecord(rec),
				"seed":    tree.WriteSeed(at.name, at.instance, testSeed()),
				"overlay": tree.CreateOverlay(t.Context(), at.name, at.instance, observe.Base{SHA256: digest(nil), Format: "qcow2"}, 1<<30),
				"removal": tree.RemoveIncarnation(at.name, at.instance),
			} {
				if err == nil {
					t.Errorf("%s of %q, %q: taken", what, at.name, at.instance)
				}
			}
		}
		for what, do := range map[string]func(string) error{"console log": tree.PrepareConsole, "its removal": tree.RemoveConsole} {
			if err := do(bad); err == nil {
				t.Errorf("%s of %q: taken", what, bad)
			}
		}
	}
	if diff := cmp.Diff(before, state(t, around)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}
