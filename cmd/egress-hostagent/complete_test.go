package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// fullAgent has proxies.
type fullAgent struct{ fakeAgent }

func (fullAgent) Status() status.Host {
	return status.Host{Proxies: []status.Proxy{{Name: "edge"}, {Name: "squid"}}}
}

// complete is what a shell is told at the end of a command line.
func complete(t *testing.T, args ...string) string {
	t.Helper()
	c := root()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(append([]string{"__complete"}, args...))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

func TestProxyNamesAreCompleted(t *testing.T) {
	t.Parallel()
	const noFiles = ":4\n"
	conf := socketConfig(t)
	if got := complete(t, "-c", conf, "status", ""); got != noFiles {
		t.Errorf("without an agent: %q; want nothing, and no files", got)
	}
	ln, err := control.Listen(filepath.Join(filepath.Dir(conf), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(t.Context(), ln, fullAgent{}, &control.Access{}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { <-ended })
	for _, command := range []string{"status", "pause", "recreate", "adopt"} {
		want := "edge\nsquid\n" + noFiles
		if d := cmp.Diff(want, complete(t, "-c", conf, command, "")); d != "" {
			t.Errorf("%s (-want +got):\n%s", command, d)
		}
		if got := complete(t, "-c", conf, command, "edge", ""); got != noFiles {
			t.Errorf("%s, second argument: %q; want nothing", command, got)
		}
	}
}
