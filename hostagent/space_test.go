package hostagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestCase070_AFullTreeIsTriedLessAndLess: whichever file has no room, the proxy
// says so, tries are ever rarer, what runs is left alone, and nothing but room is
// needed for it to go on.
func TestCase070_AFullTreeIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"base", "record", "seed", "overlay"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := up(t)
			late := f.spec("late", "#cloud-config\n")
			late.Image.SHA256 = strings.Repeat("e", 64)
			full, tries := true, 0
			f.tree.pass = func(c treeChange) error {
				if !full || c.what != what || c.name == "p" {
					return nil
				}
				tries++
				return fmt.Errorf("no space in /tree: %w", syscall.ENOSPC)
			}
			f.specs["late"] = late
			f.step(f.read())
			f.pass(time.Hour)
			c, _ := f.proxy("late").Condition(status.Synced)
			if c.Status != status.False || !strings.Contains(c.Message, "no space in /tree") {
				t.Errorf("late: %+v", c)
			}
			first := tries
			f.pass(time.Hour)
			if first < 3 || first > 40 || tries-first > 20 {
				t.Errorf("%d tries in the first hour, %d in the next", first, tries-first)
			}
			if n := len(f.tree.incs["late"]); n > 1 {
				t.Errorf("%d incarnations lie about", n)
			}
			f.wantReady("p")
			if slices.ContainsFunc(f.took(), func(did string) bool { return strings.HasSuffix(did, " p") }) {
				t.Error("what runs was touched")
			}
			full = false
			f.pass(20 * time.Minute)
			f.wantReady("late")
			if n := len(f.tree.incs["late"]); n != 1 {
				t.Errorf("%d incarnations with room", n)
			}
		})
	}
}

// strictTree refuses a disk below its base image's size, as the image tree does.
type strictTree struct{ *memTree }

func (s strictTree) CreateOverlay(ctx context.Context, name, instance string, base observe.Base, size spec.Size) error {
	if size != 0 && size < 10<<30 {
		return &observe.Error{Op: "create overlay", Object: name, Class: observe.Permanent, Err: errors.New("a disk never shrinks")}
	}
	return s.memTree.CreateOverlay(ctx, name, instance, base, size)
}

// TestCase069_ADiskBelowItsImagesStopsNothing: the guest runs on with the disk it
// has, and no step is taken beyond the one that finds out.
func TestCase069_ADiskBelowItsImagesStopsNothing(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.agent.p.Tree, f.agent.p.Executor.Tree = strictTree{f.tree}, strictTree{f.tree}
	s := f.spec("p", "#cloud-config\n")
	s.Disk = 20 << 30
	f.specs["p"] = s
	f.step(f.read())
	f.pass(time.Minute)
	was := f.wantReady("p").Instance
	f.took()
	changes := len(f.hv.Changes())
	s.Disk = 5 << 30
	f.specs["p"] = s
	f.step(f.read())
	f.pass(6 * time.Hour)
	f.wantSynced("p", status.False, "ActionRefused")
	if c, _ := f.proxy("p").Condition(status.Synced); !strings.Contains(c.Message, "a disk never shrinks") {
		t.Errorf("%+v", c)
	}
	if got := f.hv.Changes()[changes:]; len(got) > 0 {
		t.Errorf("the domain was changed: %v", got)
	}
	if p := f.proxy("p"); p.Instance != was || len(f.tree.incs["p"]) > 2 {
		t.Errorf("instance %s, was %s; %d incarnations", p.Instance, was, len(f.tree.incs["p"]))
	}
	if did := slices.DeleteFunc(f.took(), func(did string) bool { return strings.HasPrefix(did, "discard ") }); !cmp.Equal(did, []string{"prepare p"}) {
		t.Errorf("did %v", did)
	}
	s.Disk = 20 << 30
	f.specs["p"] = s
	f.step(f.read())
	f.pass(5 * time.Minute)
	if now := f.wantReady("p").Instance; now != was {
		t.Error("the disk is another though the spec is the first again")
	}
}
