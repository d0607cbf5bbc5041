package hostagent

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var simGuards = flag.Int("sim.guards", 0, "of how many seeds one has to fail with each guard off; 0: the guards are only found in the code")

var simKnown = flag.Bool("sim.known", false, "try only guards for which a seed is known")

// guard is a piece of the code that keeps a promise, and what the code is
// without it.
type guard struct {
	name  string
	swaps []swap
}

// swap is a text that is in a file once, and what stands there instead. OFF is
// true in the run that does without the guard.
type swap struct{ file, old, with string }

// TestSimCatches: for each guard, with that guard off, the simulation fails. A
// guard that nothing catches is a hole in the simulation.
func TestSimCatches(t *testing.T) {
	dir := t.TempDir()
	overlay := mutate(t, dir)
	if *simGuards == 0 {
		return
	}
	bin := filepath.Join(dir, "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay="+overlay, "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, failed := trial(t, bin, "none of them", "SIM_SEED=", 20); failed {
		t.Fatalf("it fails with all guards on:\n%s", out)
	}
	for _, g := range guards {
		if _, known := caughtBy[g.name]; *simKnown && !known {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			began := time.Now()
			out, failed := []byte(nil), false
			if seed, known := caughtBy[g.name]; known {
				out, failed = trial(t, bin, g.name, fmt.Sprintf("SIM_SEED=%d", seed), 0)
			}
			if !failed {
				out, failed = trial(t, bin, g.name, "SIM_SEED=", *simGuards)
			}
			if !failed {
				t.Fatalf("%d seeds and nothing noticed that it is off", *simGuards)
			}
			t.Logf("%s, %s", said(out), time.Since(began).Round(time.Second/10))
		})
	}
}

// mutate writes the code with all guards in it that can be taken off, and gives
// the file that tells the compiler so. Nothing of that is in any other build.
func mutate(t *testing.T, dir string) (overlay string) {
	t.Helper()
	texts := map[string]string{}
	for _, g := range guards {
		for _, s := range g.swaps {
			if _, read := texts[s.file]; !read {
				b, err := os.ReadFile(s.file)
				if err != nil {
					t.Fatal(err)
				}
				texts[s.file] = string(b)
			}
			if n := strings.Count(texts[s.file], s.old); n != 1 {
				t.Errorf("%s: %q is %d times in %s, not once", g.name, s.old, n, s.file)
			}
			with := strings.ReplaceAll(s.with, "OFF", fmt.Sprintf("simOff(%q)", g.name))
			texts[s.file] = strings.Replace(texts[s.file], s.old, with, 1)
		}
	}
	replace, written := map[string]string{}, 0
	write := func(path, text string) {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		written++
		replace[abs] = filepath.Join(dir, fmt.Sprintf("%d.go", written))
		if err := os.WriteFile(replace[abs], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range texts {
		write(file, text)
		write(filepath.Join(filepath.Dir(file), "sim_off.go"), fmt.Sprintf(offText, packageLine.FindString(text)))
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

var packageLine = regexp.MustCompile(`(?m)^package \w+$`)

const offText = `%s

import "os"

var simIsOff = os.Getenv("SIM_OFF")

func simOff(guard string) bool { return guard == simIsOff }
`

// trial runs one seed, or so many, with a guard off, until one fails by a broken
// promise or a panic: that the time is up catches nothing.
func trial(t *testing.T, bin, guard, one string, seeds int) (out []byte, failed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run=^TestSim$", fmt.Sprintf("-sim.seeds=%d", seeds))
	cmd.Env = append(os.Environ(), "SIM_OFF="+guard, one)
	out, err := cmd.CombinedOutput()
	return out, err != nil && brokenLine.Match(out)
}

var (
	brokenLine = regexp.MustCompile(`PROMISE NOT KEPT: .*|panic: .*`)
	seedLine   = regexp.MustCompile(`SIM_SEED=\d+`)
)

// said is what a failed trial says first, and of which seed.
func said(out []byte) string {
	return string(bytes.Join([][]byte{seedLine.Find(out), brokenLine.Find(out)}, []byte(": ")))
}
