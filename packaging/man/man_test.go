package man_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/egress-proxies/egress-hostagent/packaging/man"
)

// newYear is still the old year west of Greenwich.
var newYear = time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)

func TestDocument(t *testing.T) {
	t.Parallel()
	const text = `# Keys of a thing

See [edge.toml](../testdata/specs/edge.toml), [the spec](SPEC.md) and [a page](OTHER.md).

## What there is

| key | is | example |
|---|---|---|
| ` + "`a`" + ` | a [page](OTHER.md) | ` + "`a = 1`" + ` |
| ` + "`b`" + ` | nothing | |

` + "```toml" + `
# a comment
| no table |
` + "```" + `
`
	want := `.nh
.TH "EGRESS-THING" "5" "Jan 2026" "egress-hostagent" "egress-hostagent"

.SH NAME
egress-thing \- a short word


.SH DESCRIPTION
See \fB/usr/share/doc/egress-hostagent/examples/edge.toml\fR, \fBegress-hostagent-spec(5)\fP and a page.


.SH What there is
.TP
\fBa\fR
a page. Example: \fBa = 1\fR

.TP
\fBb\fR
nothing

.EX
# a comment
| no table |
.EE


.SH SEE ALSO
\fBegress-hostagent(8)\fP, \fBegress-hostagent-config(5)\fP, \fBegress-hostagent-spec(5)\fP
`
	got := string(man.Document("egress-thing", "a short word", []byte(text), newYear.In(time.FixedZone("west", -3600))))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCommandsHaveDateAndNoHelpPage(t *testing.T) {
	t.Parallel()
	c := &cobra.Command{Use: "tool", Version: "1", Run: func(*cobra.Command, []string) {}}
	c.AddCommand(&cobra.Command{Use: "do", Short: "Do", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	dir := t.TempDir()
	if err := man.Commands(c, dir, newYear.In(time.FixedZone("west", -3600))); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "tool.8"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), `"Jan 2026"`) || strings.Contains(string(page), "tool-help") || !strings.Contains(string(page), "tool-do(8)") {
		t.Errorf("page:\n%s", page)
	}
	for _, name := range []string{"tool-secret.8", "tool-help.8"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}
