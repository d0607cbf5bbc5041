package apply

import (
	"os"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// TestI04_FilesWithABrokenRecordAreLeft: the record became unreadable between
// planning and acting, so that nothing says whose the files are.
func TestI04_FilesWithABrokenRecordAreLeft(t *testing.T) {
	b := newBench(t)
	b.do(plan.Prepare)
	paths := b.tree.Paths("p", inst)
	if err := os.WriteFile(paths.Record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context(), b.action(plan.Discard)); observe.ClassOf(err) != observe.Clash {
		t.Errorf("discard: %v", err)
	}
	for _, file := range []string{paths.Record, paths.Overlay, paths.Seed} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
