package manifest

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const (
	testURL = "https://cfg.example/h1.json"
	// canary is in all user-data, and must be nowhere else.
	canary = "k4n4ry"
)

// rules offers one image and one machine type.
func rules() Rules {
	return Rules{Name: testURL, Host: "h1", Catalog: spec.Catalog{
		Images: map[string]spec.Image{"debian-13": {
			Key: "debian-13", Source: "/d.qcow2", SHA256: strings.Repeat("a", 64), Format: "qcow2",
		}},
		MachineTypes: map[string]spec.MachineType{"small": {CPUs: 1, Memory: 512 << 20}},
		Defaults:     spec.Defaults{Image: "debian-13", MachineType: "small"},
	}, Remote: spec.Remote{Networks: []spec.Network{{Network: spec.DefaultNetwork}}, MaxProxies: MaxProxies}}
}

// text is a document of a revision with these proxies, the user-data of each
// its name.
func text(revision int, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"name": %q, "user_data": "#cloud-config\n# %s %s\n"}`, name, canary, name))
	}
	empty := ""
	if len(names) == 0 {
		empty = `"allow_empty": true, `
	}
	return fmt.Sprintf(`{"version": 1, "host": "h1", "revision": %d, "issued_at": "2026-01-31T12:00:00Z", %s"proxies": [%s]}`,
		revision, empty, strings.Join(list, ",\n"))
}

// must is for steps of a test that have to work.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names gives what a snapshot lists, sorted, as one text.
func names(s source.Snapshot) string {
	var all []string
	for name, e := range s.Entries {
		if e.Spec == nil || e.Name != name || e.File != testURL && e.File != "" || e.Hash != e.Spec.Hash() || len(e.Problems) > 0 {
			return "broken entry " + name
		}
		all = append(all, name)
	}
	return strings.Join(sorted(all), " ")
}

// logs collects what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

var epoch = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

type entry = source.Entry
