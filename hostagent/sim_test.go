package hostagent

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	simTime  = flag.Duration("sim.time", 2*time.Second, "for how long TestSim tries seeds")
	simFrom  = flag.Uint64("sim.from", 0, "TestSim goes on from this seed: a run is the same each time, a soak takes another one")
	simSeeds = flag.Uint64("sim.seeds", 0, "TestSim tries the seeds from 1 to this one, and no others")
)

// TestSim runs random storms of specs, faults, admins, orders and crashes on
// the deterministic core, checks the promises after each step, and then that
// the farm converges to exactly what is wanted. A failing seed is printed and
// replays with SIM_SEED=n.
func TestSim(t *testing.T) {
	if s := os.Getenv("SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(simulate(t, seed))
		return
	}
	var tried atomic.Uint64
	next := seeds()
	t.Run("seeds", func(t *testing.T) {
		for w := range 2 { // one runs while the other's memory is collected
			t.Run(strconv.Itoa(w), func(t *testing.T) {
				t.Parallel()
				for seed, more := next(); more && !t.Failed(); seed, more = next() {
					if transcript := simulate(t, seed); t.Failed() {
						t.Logf("SIM_SEED=%d make test-sim\n%s", seed, transcript)
					}
					tried.Add(1)
				}
			})
		}
	})
	t.Logf("%d seeds", tried.Load())
}

// onceFailing are seeds that found something once.
var onceFailing = []uint64{
	3, 8, 12, 14, 16, 31, 58, 66, 71, 98, 100, 120, 123, 133, 147, 162, 357, 379, 382, 461, 535, 596, 600, 616, 636, 695, 760, 824,
	891, 1096, 1125, 1141, 1379, 1402, 1779, 1828, 1863, 2130, 2233, 424, 539, 570,
}

// looked is the last of the seeds from 1 that were all looked at. A run without
// -sim.from tries these, over and over; a soak goes where nobody has been.
const looked = 1300

// seeds gives one seed after the other, to whoever asks.
func seeds() func() (seed uint64, more bool) {
	var asked atomic.Uint64
	began := time.Now()
	return func() (uint64, bool) {
		n := asked.Add(1)
		switch once := uint64(len(onceFailing)); {
		case *simSeeds > 0:
			return n, n <= *simSeeds
		case n <= once:
			return onceFailing[n-1], true
		default:
			seed := *simFrom + n - once
			if *simFrom == 0 { // the same in each run, however fast the machine
				seed = (n-once-1)%looked + 1
			}
			return seed, time.Since(began) < *simTime
		}
	}
}

// TestSimReplays: a seed says it all, or it could not be replayed.
func TestSimReplays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		if one, two := simulate(t, seed), simulate(t, seed); one != two {
			t.Errorf("seed %d went two ways:\n%s\n%s", seed, one, two)
		}
	}
}

// gusts are how many things happen in a storm.
const gusts = 150

// simulate runs one storm, and gives its transcript.
func simulate(t *testing.T, seed uint64) (transcript string) {
	hung := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("SIM_SEED=%d does not end", seed)) })
	defer hung.Stop()
	s := newStorm(t, seed)
	defer func() { transcript = strings.Join(s.log, "\n") + "\n" + s.hv.String() }()
	blow := s.weather()
	for range gusts {
		blow()
		s.checkState()
		if t.Failed() {
			return
		}
	}
	for _, part := range []func(){s.calm, s.checkConverged, s.epilogue, s.checkSecrets} {
		if part(); t.Failed() {
			break
		}
	}
	return
}
