// Command lanes runs the project's test lanes and sums them up: every lane
// that can run here is run, each one left out is named with the reason, and
// the last line is "N passed, N failed, N skipped".
//
// usage: lanes [LANE...]      all lanes without an argument
//
// With REQUIRE_ALL=1 in the environment a lane or a test that is left out
// counts as failed.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// tally counts tests.
type tally struct{ passed, failed, skipped int }

func (t *tally) add(o tally) {
	t.passed += o.passed
	t.failed += o.failed
	t.skipped += o.skipped
}

// lane is one make target.
type lane struct {
	name  string
	needs []need
	steps []step
}

func main() {
	requireAll := os.Getenv("REQUIRE_ALL") == "1"
	chosen := os.Args[1:]
	for _, name := range chosen {
		if !slices.ContainsFunc(lanes(), func(l lane) bool { return l.name == name }) {
			fmt.Fprintf(os.Stderr, "lanes: there is no lane %s\n", name)
			os.Exit(2)
		}
	}
	var sum tally
	for _, l := range lanes() {
		if len(chosen) == 0 || slices.Contains(chosen, l.name) {
			sum.add(l.run(requireAll))
		}
	}
	if requireAll {
		sum.failed, sum.skipped = sum.failed+sum.skipped, 0
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	if sum.failed > 0 {
		os.Exit(1)
	}
}

// run runs a lane whose needs are met; otherwise it says what is missing and
// counts one test as skipped.
func (l lane) run(requireAll bool) tally {
	var missing []string
	for _, n := range l.needs {
		if why := n(); why != "" {
			missing = append(missing, why)
		}
	}
	if len(missing) > 0 {
		fmt.Printf("== %s is left out: %s\n", l.name, strings.Join(missing, "; "))
		return tally{skipped: 1}
	}
	began := time.Now()
	fmt.Printf("== %s\n", l.name)
	var t tally
	for _, s := range l.steps {
		t.add(s())
	}
	verdict := "ok"
	if t.failed > 0 || requireAll && t.skipped > 0 {
		verdict = "FAILED"
	}
	fmt.Printf("== %s: %s, %d passed, %d failed, %d skipped, %s\n", l.name, verdict,
		t.passed, t.failed, t.skipped, time.Since(began).Round(time.Second))
	return t
}
