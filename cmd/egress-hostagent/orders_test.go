package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// fakeAgent notes the orders it is given and answers them.
type fakeAgent struct {
	given chan order.Order
	text  string
	err   error
}

func (fakeAgent) Status() status.Host { return status.Host{} }

func (f fakeAgent) Obey(_ context.Context, o order.Order) (string, error) {
	f.given <- o
	return f.text, f.err
}

// took gives the orders since the last call.
func (f fakeAgent) took() []order.Order {
	var all []order.Order
	for len(f.given) > 0 {
		all = append(all, <-f.given)
	}
	return all
}

// running serves a fake agent until the test ends, and gives the configuration
// that names its socket.
func running(t *testing.T, text string, err error) (f fakeAgent, conf string) {
	t.Helper()
	conf = socketConfig(t)
	ln, lerr := control.Listen(filepath.Join(filepath.Dir(conf), "s.sock"))
	if lerr != nil {
		t.Fatal(lerr)
	}
	f = fakeAgent{make(chan order.Order, 100), text, err}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, ln, f, &control.Access{}, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f, conf
}

// socketConfig gives a configuration with the socket s.sock beside it.
func socketConfig(t *testing.T) string {
	t.Helper()
	dir := files(t, map[string]string{"config.toml": ""})
	conf := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("%s[control]\nsocket = %q\n", cliConfig, filepath.Join(dir, "s.sock"))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return conf
}

var ignoreBy = cmpopts.IgnoreFields(order.Order{}, "By")

const heldDigest = "0123456789ab"

func TestOrdersReachTheAgent(t *testing.T) {
	f, conf := running(t, "so be it", nil)
	for _, tt := range []struct {
		args []string
		want order.Order
	}{
		{[]string{"recreate", "--yes", "edge1"}, order.Order{Verb: order.Recreate, Name: "edge1"}},
		{[]string{"delete", "edge1", "-y"}, order.Order{Verb: order.Delete, Name: "edge1"}},
		{[]string{"adopt", "edge1"}, order.Order{Verb: order.Adopt, Name: "edge1"}},
		{[]string{"adopt", "--all", "--yes"}, order.Order{Verb: order.Adopt, All: true}},
		{[]string{"abandon", "--yes", "edge1"}, order.Order{Verb: order.Abandon, Name: "edge1"}},
		{[]string{"pause", "edge1"}, order.Order{Verb: order.Pause, Name: "edge1"}},
		{[]string{"pause", "--all"}, order.Order{Verb: order.Pause, All: true}},
		{[]string{"resume", "edge1"}, order.Order{Verb: order.Resume, Name: "edge1"}},
		{[]string{"resume", "--all"}, order.Order{Verb: order.Resume, All: true}},
		{[]string{"release", heldDigest}, order.Order{Verb: order.Release, Digest: heldDigest}},
	} {
		out, code := cli(t, append([]string{"-c", conf}, tt.args...)...)
		if code != 0 || out != "so be it\n" {
			t.Errorf("%v: %d, %q", tt.args, code, out)
		}
		if diff := cmp.Diff([]order.Order{tt.want}, f.took(), ignoreBy); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestWrongOrdersAreNotGiven(t *testing.T) {
	f, conf := running(t, "so be it", nil)
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"no name", []string{"delete", "--yes"}, []string{"delete NAME", "--help"}},
		{"two names", []string{"recreate", "--yes", "a", "b"}, []string{"recreate NAME", "--help"}},
		{"a bad name", []string{"recreate", "--yes", "../a"}, []string{"leave the image tree"}},
		{"an empty name", []string{"pause", "--all", ""}, []string{"empty name"}},
		{"neither name nor all", []string{"pause"}, []string{"the name of one proxy, or all", "--help"}},
		{"name and all", []string{"resume", "a", "--all"}, []string{"the name of one proxy, or all"}},
		{"all where it does not go", []string{"delete", "--all", "--yes"}, []string{"--all"}},
		{"no digest", []string{"release"}, []string{"release DIGEST"}},
		{"a name for a digest", []string{"release", "edge1"}, []string{"12 hex digits"}},
		{"recreate unasked", []string{"recreate", "edge1"}, []string{"edge1", "everything in the guest is lost", "--yes"}},
		{"delete unasked", []string{"delete", "edge1"}, []string{"edge1", "with its disk", "--yes"}},
		{"abandon unasked", []string{"abandon", "edge1"}, []string{"edge1", "can not be undone", "--yes"}},
		{"adopt all unasked", []string{"adopt", "--all"}, []string{"host id", "--yes"}},
	} {
		out, code := cli(t, append([]string{"-c", conf}, tt.args...)...)
		if code != exitUsage {
			t.Errorf("%s: exit code %d, want %d", tt.name, code, exitUsage)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: output lacks %q:\n%s", tt.name, want, out)
			}
		}
		if given := f.took(); len(given) > 0 {
			t.Errorf("%s: the agent was given %v", tt.name, given)
		}
	}
}

func TestOrdersThatFail(t *testing.T) {
	_, refuses := running(t, "", errors.New("proxy edge1 is listed by /etc/proxies.d/edge1.toml: remove that file"))
	for _, tt := range []struct {
		name, conf string
		code       int
		want       string
	}{
		{"refused", refuses, exitError, "delete edge1: the agent refuses: proxy edge1 is listed by /etc/proxies.d/edge1.toml"},
		{"not allowed", answering(t, http.StatusForbidden, `{"error":"user \"alice\" may look but not order"}`), exitError, "alice"},
		{"an agent that takes no orders", answering(t, http.StatusMethodNotAllowed, `{"error":"only GET"}`), exitError, "another version"},
		{"no agent", socketConfig(t), exitNotRunning, "start it"},
		{"no configuration", filepath.Join(t.TempDir(), "none.toml"), exitConfig, "none.toml"},
	} {
		out, code := cli(t, "-c", tt.conf, "delete", "--yes", "edge1")
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %d, %s; want %d and %q", tt.name, code, out, tt.code, tt.want)
		}
	}
}

// answering gives the configuration for an agent that answers everything alike.
func answering(t *testing.T, code int, body string) (conf string) {
	t.Helper()
	conf = socketConfig(t)
	ln, err := net.Listen("unix", filepath.Join(filepath.Dir(conf), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return conf
}

func TestI17_AgentTextIsHarmlessOnATerminal(t *testing.T) {
	const nasty = "\x1b]0;owned\x07 \u202e\u009b31m"
	_, obeys := running(t, nasty, nil)
	_, refuses := running(t, "", errors.New(nasty))
	for _, conf := range []string{obeys, refuses} {
		out, _ := cli(t, "-c", conf, "pause", "edge1")
		if !strings.Contains(out, "owned") || strings.ContainsAny(out, "\x1b\x07\u009b\u202e") {
			t.Errorf("%q", out)
		}
	}
}

// openTerminal gives both ends of a terminal: what programs use, and what
// people see and type.
func openTerminal(t *testing.T) (tty, people *os.File) {
	t.Helper()
	people, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { people.Close() })
	if err := unix.IoctlSetPointerInt(int(people.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(people.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty, people
}

// atTerminal runs a command line on a terminal, does as told when it is asked,
// and gives what was on the screen by then and the exit code.
func atTerminal(t *testing.T, then func(people *os.File, interrupt func()), args ...string) (screen string, code int) {
	t.Helper()
	tty, people := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := root()
	c.SetIn(tty)
	c.SetErr(tty)
	c.SetOut(new(bytes.Buffer))
	c.SetArgs(args)
	ended := make(chan error, 1)
	go func() {
		err := c.ExecuteContext(ctx)
		tty.Close() // ends a wait for a question that is not asked
		ended <- err
	}()
	for buf := make([]byte, 4096); !strings.HasSuffix(screen, "[y/N] "); {
		n, err := people.Read(buf)
		if err != nil {
			t.Fatalf("the screen, after %q: %v", screen, err)
		}
		screen += string(buf[:n])
	}
	then(people, cancel)
	err := <-ended
	var coded *codedError
	switch {
	case err == nil:
		return screen, 0
	case errors.As(err, &coded):
		return screen + err.Error(), coded.code
	}
	return screen + err.Error(), exitError
}

func TestLossIsAskedAbout(t *testing.T) {
	f, conf := running(t, "so be it", nil)
	types := func(text string) func(*os.File, func()) {
		return func(people *os.File, _ func()) { fmt.Fprint(people, text) }
	}
	for _, tt := range []struct {
		name string
		then func(*os.File, func())
		code int
		says string
	}{
		{"y", types("y\n"), 0, ""},
		{"yes", types(" Yes \n"), 0, ""},
		{"n", types("n\n"), exitError, "not confirmed"},
		{"nothing", types("\n"), exitError, "not confirmed"},
		{"something else", types("yesterday\n"), exitError, "not confirmed"},
		{"end of file", types("\x04"), exitError, "not confirmed"},
		{"interrupt", func(_ *os.File, interrupt func()) { interrupt() }, exitError, "interrupted"},
	} {
		screen, code := atTerminal(t, tt.then, "-c", conf, "delete", "edge1")
		if code != tt.code || !strings.Contains(screen, tt.says) || !strings.Contains(screen, "The VM of edge1 is removed for good") {
			t.Errorf("%s: %d, %s", tt.name, code, screen)
		}
		if given := f.took(); (len(given) == 1) != (tt.code == 0) {
			t.Errorf("%s: the agent was given %v", tt.name, given)
		}
	}
}

func TestOrderHelpFitsEightyColumns(t *testing.T) {
	for _, c := range orderCommands(&options{}) {
		for _, line := range strings.Split(c.Long, "\n") {
			if n := len([]rune(line)); n > width {
				t.Errorf("%s: %d columns: %s", c.Name(), n, line)
			}
		}
		if len(c.Short) > 66 { // beside the names
			t.Errorf("%s: %d columns: %s", c.Name(), len(c.Short), c.Short)
		}
		for _, word := range []string{"VM", "Exit codes", "data"} {
			if !strings.Contains(c.Long, word) {
				t.Errorf("%s: the help has no word on %s", c.Name(), word)
			}
		}
	}
}

// A question that goes to a file is not seen, and would be waited on for ever.
func TestNothingIsAskedOutOfSight(t *testing.T) {
	f, conf := running(t, "so be it", nil)
	tty, people := openTerminal(t)
	fmt.Fprint(people, "y\n")
	c := root()
	c.SetIn(tty)
	c.SetErr(new(bytes.Buffer))
	c.SetOut(tty)
	c.SetArgs([]string{"-c", conf, "delete", "edge1"})
	var coded *codedError
	if err := c.ExecuteContext(t.Context()); !errors.As(err, &coded) || coded.code != exitUsage || len(f.given) > 0 {
		t.Errorf("error %v, given %v; want exit code %d and nothing", err, f.took(), exitUsage)
	}
}
