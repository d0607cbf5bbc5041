package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// step is one part of a lane.
type step func() tally

// command is a step that runs a command; it passes when the command succeeds
// and, for checks that list offenders, prints nothing.
func command(what string, silent bool, env []string, args ...string) step {
	return func() tally {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err == nil && (!silent || len(bytes.TrimSpace(out)) == 0) {
			fmt.Printf("   %s: ok\n", what)
			return tally{passed: 1}
		}
		fmt.Printf("   %s: FAILED (%s)\n%s\n", what, strings.Join(args, " "), out)
		return tally{failed: 1}
	}
}

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// goTest is a step that runs "go test -json" and counts its tests. What a
// failed or skipped test printed is shown; progress of tests that run long is
// shown as it comes when live is set.
func goTest(live bool, args ...string) step {
	return func() tally {
		return counted(live, "go test "+strings.Join(args, " "), exec.Command("go", append([]string{"test", "-json"}, args...)...))
	}
}

// counted runs a command that prints test2json's events and counts its tests.
func counted(live bool, what string, cmd *exec.Cmd) tally {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Printf("   %s: %v\n", what, err)
		return tally{failed: 1}
	}
	c := counter{live: live, said: map[string][]string{}}
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var ev event
		if json.Unmarshal(sc.Bytes(), &ev) != nil {
			fmt.Println("   " + sc.Text())
			continue
		}
		c.take(ev)
	}
	if err := cmd.Wait(); err != nil && c.failed == 0 {
		fmt.Printf("   %s: %v\n", what, err)
		c.failed++
	}
	return c.tally
}

// onDaemon is goTest on a private libvirtd: the test binary runs inside its
// namespaces, with its URI in the environment.
func onDaemon(args ...string) step {
	return func() (t tally) {
		failed := func(err error) tally {
			fmt.Printf("   %v\n", err)
			return tally{failed: 1}
		}
		dir, err := os.MkdirTemp("", "egress-libvirtd-")
		if err != nil {
			return failed(err)
		}
		defer os.RemoveAll(dir)
		script, err := kit.Script("private-libvirtd.sh")
		if err != nil {
			return failed(err)
		}
		place, err := kit.Private(filepath.Join(dir, "lab"))
		if err != nil {
			return failed(err)
		}
		defer func() {
			if err := place.Stop(); err != nil {
				t.add(failed(err))
			}
		}()
		if err := os.Setenv("EGRESS_TEST_LIBVIRT_URI", place.URI); err != nil {
			return failed(err)
		}
		inside := fmt.Sprintf("-exec=%s join %s", script, filepath.Join(dir, "lab"))
		return goTest(false, append([]string{inside}, args...)...)()
	}
}

// onCloudInit is goTest with cloud-init unpacked beside it, not installed. Where
// it can not be fetched the step counts as one test that was left out.
func onCloudInit(args ...string) step {
	return func() tally {
		if out, err := exec.Command(lab + "cloudinit/fetch.sh").CombinedOutput(); err != nil {
			fmt.Printf("   cloud-init's own parser is left out: %s\n", bytes.TrimSpace(out))
			return tally{skipped: 1}
		}
		return goTest(false, args...)()
	}
}

// counter turns events into a tally.
type counter struct {
	tally
	live bool
	said map[string][]string // by test: what it printed
}

func (c *counter) take(ev event) {
	key := ev.Package + " " + ev.Test
	switch ev.Action {
	case "output", "build-output":
		if c.live && ev.Test != "" && !strings.HasPrefix(strings.TrimSpace(ev.Output), "=== ") {
			fmt.Print("   " + ev.Output)
			return
		}
		c.said[key] = append(c.said[key], ev.Output)
	case "build-fail":
		c.show(key)
	case "pass", "skip", "fail":
		c.end(ev, key)
	}
}

func (c *counter) end(ev event, key string) {
	defer delete(c.said, key)
	if ev.Test == "" {
		if ev.Action != "skip" { // a package without tests
			took := time.Duration(ev.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
			fmt.Printf("   %s %s %s\n", ev.Action, ev.Package, took)
		}
		if ev.Action == "fail" {
			c.show(key)
		}
		return
	}
	switch ev.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
		c.show(key)
	case "fail":
		c.failed++
		c.show(key)
	}
}

func (c *counter) show(key string) {
	for _, s := range c.said[key] {
		fmt.Print("   " + s)
	}
}
